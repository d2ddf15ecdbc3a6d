// A trainer in a process of its own, for tests to kill: it joins, does what its arguments say, then waits for its end.
//
//   e2e_trainer SOCKET GROUP NAME WORLD idle            joins only
//   e2e_trainer SOCKET GROUP NAME WORLD submit          submits operation 0, large, from shared memory
//   e2e_trainer SOCKET GROUP NAME WORLD stage           dies while it copies the input of operation 0
//   e2e_trainer SOCKET GROUP NAME WORLD rounds          operations without end
//
// Prints "joined PEER_ID", then "submitted", a line each, unbuffered. Exit code 1 with a line on stderr on any error.
#include "tests/e2e/trainer.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ringway/ringway.hpp>
#include <string>

#include "client/bench/check_values.h"

namespace ringway::e2e {
namespace {

[[noreturn]] void Fail(const std::string& what, const Status& error) {
  std::fprintf(stderr, "%s: %s: %s\n", what.c_str(), NameOf(error.code()), error.text().c_str());
  std::exit(1);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void WaitForTheEnd() {
  for (;;) ::pause();
}

Buffer MustAllocate(Session& session) {
  auto buffer = session.Allocate(kTrainerCount * sizeof(float));
  if (!buffer.ok()) Fail("allocate", buffer.status());
  return std::move(*buffer);
}

Work MustSubmit(Session& session, const void* input, void* output) {
  auto work = session.AllReduceAsync(input, output, kTrainerCount, DType::kF32, ReduceOp::kSum);
  if (!work.ok()) Fail("submit", work.status());
  return std::move(*work);
}

[[noreturn]] void Submit(Session& session) {
  const Buffer input = MustAllocate(session);
  const Buffer output = MustAllocate(session);
  bench::FillInput({}, {session.peer_id(), 0}, input.data(), kTrainerCount);
  [[maybe_unused]] const Work work = MustSubmit(session, input.data(), output.data());  // NOLINT: held, not used
  Say("submitted");
  WaitForTheEnd();
}

// Private memory whose second half cannot be read: the copy to shared memory faults in its middle.
[[noreturn]] void Stage(Session& session) {
  const std::size_t bytes = kTrainerCount * sizeof(float);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap", Status(Code::kIo, std::strerror(errno)));
  const std::size_t half = bytes / 2 / 65536 * 65536;
  std::memset(memory, 0, half);
  ::mprotect(static_cast<char*>(memory) + half, bytes - half, PROT_NONE);
  std::string output(bytes, '\0');
  // It dies by the signal alone: no report of a sanitizer, no core file.
  std::signal(SIGSEGV, SIG_DFL);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Say("submitted");
  (void)MustSubmit(session, memory, output.data());
  Fail("stage", Status(Code::kInternal, "the copy did not fault"));
}

[[noreturn]] void Rounds(Session& session) {
  const Buffer input = MustAllocate(session);
  const Buffer output = MustAllocate(session);
  for (std::uint64_t number = 0;; ++number) {
    bench::FillInput({}, {session.peer_id(), number}, input.data(), kTrainerCount);
    Work work = MustSubmit(session, input.data(), output.data());
    if (number == 0) Say("submitted");
    if (const auto result = work.Wait(); !result.ok()) Fail("wait", result.status());
  }
}

int Run(char** argv) {
  JoinOptions options;
  options.socket_path = argv[1];
  options.group = argv[2];
  options.name = argv[3];
  options.wait_world = static_cast<std::uint32_t>(std::stoul(argv[4]));
  options.reconnect = Milliseconds(0);
  auto joined = Session::Join(options);
  if (!joined.ok()) Fail("join", joined.status());
  Session& session = **joined;
  Say("joined " + std::to_string(session.peer_id()));
  const std::string task = argv[5];
  if (task == "submit") Submit(session);
  if (task == "stage") Stage(session);
  if (task == "rounds") Rounds(session);
  WaitForTheEnd();
}

}  // namespace
}  // namespace ringway::e2e

int main(int argc, char** argv) { return argc == 6 ? ringway::e2e::Run(argv) : 1; }
