// Staging through a device library: how fast slices cross, each way and both at once, beside one plain copy of the
// whole (what the link carries). Uses this host's GPU, or the library that RINGWAY_DEVICE_LIBRARY names.
//
//   staging_bench                                                            on a GPU
//   RINGWAY_DEVICE_LIBRARY=.../libringway_test_device.so staging_bench       the tests' device: two memcpys
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "proto/device/loader.h"

namespace ringway::device {
namespace {

Library* the_library = nullptr;

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "staging_bench: %s\n", status.text);
  std::exit(1);
}

// Pinned memory of the host, and as much on device 0.
class Pair {
 public:
  explicit Pair(std::size_t bytes) : bytes_(bytes) {
    host_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (host_ == MAP_FAILED) Must(Failure(Code::kResourceExhausted, "no memory"));
    Must(the_library->Pin(0, host_, bytes));
    Must(the_library->Allocate(0, bytes, &device_));
  }
  ~Pair() {
    the_library->Free(device_);
    std::atomic<bool> unpinned = false;
    const auto then = [](void* context) {
      static_cast<std::atomic<bool>*>(context)->store(true);
      static_cast<std::atomic<bool>*>(context)->notify_all();
    };
    the_library->UnpinLater(0, host_, then, &unpinned);
    unpinned.wait(false);
    ::munmap(host_, bytes_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void CopyNow(Direction direction) const {
    const bool to_host = direction == Direction::kToHost;
    Must(the_library->CopyNow(to_host ? host_ : device_, to_host ? device_ : host_, bytes_));
  }
  CopyJob Job(Direction direction) {
    CopyJob job{.direction = direction, .bytes = bytes_, .context = this};
    job.to = direction == Direction::kToHost ? host_ : device_;
    job.from = direction == Direction::kToHost ? device_ : host_;
    job.report = [](void* context, std::size_t arrived, const Status& status) {
      Must(status);
      auto* const pair = static_cast<Pair*>(context);
      pair->arrived_ = arrived;
      if (arrived == pair->bytes_) pair->arrived_.notify_all();
    };
    arrived_ = 0;
    return job;
  }
  void Start(Direction direction) { Must(the_library->Start(Job(direction))); }
  // Releases it through the default stream, which waits for it.
  void Release() {
    std::shared_ptr<Hold> hold;
    Must(the_library->HoldStream(0, nullptr, nullptr, host_, &hold));
    hold->Release(Job(Direction::kToDevice));
  }
  void Wait() {
    for (std::size_t seen = arrived_; seen < bytes_; seen = arrived_) arrived_.wait(seen);
  }

 private:
  std::size_t bytes_;
  void* host_ = nullptr;
  void* device_ = nullptr;
  std::atomic<std::size_t> arrived_ = 0;
};

void WholeCopy(benchmark::State& state, Direction direction) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Pair pair(bytes);
  for (auto _ : state) pair.CopyNow(direction);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void Staged(benchmark::State& state, Direction direction) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Pair pair(bytes);
  for (auto _ : state) {
    pair.Start(direction);
    pair.Wait();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

// A stream that waits for a result copies it itself.
void Held(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Pair pair(bytes);
  for (auto _ : state) {
    pair.Release();
    pair.Wait();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

// The bytes of both ways count.
void StagedBothWays(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Pair in(bytes);
  Pair out(bytes);
  for (auto _ : state) {
    in.Start(Direction::kToHost);
    out.Start(Direction::kToDevice);
    in.Wait();
    out.Wait();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * state.iterations() * bytes));
}

constexpr std::int64_t kSmall = 64 << 10;
constexpr std::int64_t kLarge = 256 << 20;

BENCHMARK_CAPTURE(WholeCopy, to_host, Direction::kToHost)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK_CAPTURE(WholeCopy, to_device, Direction::kToDevice)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK_CAPTURE(Staged, to_host, Direction::kToHost)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK_CAPTURE(Staged, to_device, Direction::kToDevice)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(Held)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(StagedBothWays)->Arg(kSmall)->Arg(kLarge)->UseRealTime();

}  // namespace
}  // namespace ringway::device

int main(int argc, char** argv) {
  using namespace ringway::device;
  LoadDriver();
  const Loaded& loaded = Load();
  if (loaded.library == nullptr) {
    std::fprintf(stderr, "staging_bench: %s\n",
                 loaded.problem.empty() ? "this host has no GPU driver (libcuda.so.1)" : loaded.problem.c_str());
    return 2;
  }
  the_library = loaded.library;
  std::printf("device library: %s\n", the_library->name());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
