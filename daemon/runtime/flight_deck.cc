#include "daemon/runtime/flight_deck.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/stream/address.h"
#include "proto/stream/unique_fd.h"

namespace ringway::daemon {
namespace {

constexpr mode_t kMode = 0600;

Status Refused(const std::string& what) {
  return {Code::kInvalidArgument, "--flight-file: " + what + ": remove it, or give another path"};
}

// Makes way for a new file, whatever the daemon before left there.
Status MoveAway(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status::Ok() : net::ErrnoStatus("--flight-file: cannot examine " + path, errno);
  }
  if (!S_ISREG(info.st_mode)) return Refused(path + " is no file");
  const net::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return net::ErrnoStatus("--flight-file: cannot open " + path, errno);
  std::uint64_t magic = 0;
  const ssize_t n = ::read(fd.get(), &magic, sizeof magic);
  // One that its daemon had just made holds zeros.
  const bool is_ours = n == 0 || (n == sizeof magic && (magic == flight::kMagic || magic == 0));
  if (!is_ours) return Refused(path + " is no file of a flight recorder");
  if (::rename(path.c_str(), (path + ".old").c_str()) == 0) return Status::Ok();
  return net::ErrnoStatus("--flight-file: cannot rename " + path, errno);
}

// Returns a new file of so many bytes, all of which there is room for.
Result<net::UniqueFd> MakeFile(const std::string& path, std::size_t bytes) {
  net::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return net::ErrnoStatus("--flight-file: cannot make " + path, errno);
  const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) return net::ErrnoStatus("--flight-file: no room for " + path, error);
  return fd;
}

}  // namespace

Result<FlightMemory> FlightMemory::Open(const std::string& path) {
  constexpr std::size_t kBytes = flight::Recorder::kBytes;
  net::UniqueFd fd;
  if (!path.empty()) {
    if (Status status = MoveAway(path); !status.ok()) return status;
    auto made = MakeFile(path, kBytes);
    if (!made.ok()) return made.status();
    fd = std::move(made).value();
  }
  const int flags = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd.get(), 0);
  if (memory == MAP_FAILED) return net::ErrnoStatus("--flight-file: cannot map memory", errno);
  return FlightMemory({static_cast<std::byte*>(memory), kBytes});
}

FlightMemory::~FlightMemory() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

const char* NameOf(DumpCause cause) {
  switch (cause) {
    case DumpCause::kAbort:
      return "abort";
    case DumpCause::kStuck:
      return "operation_stuck";
    case DumpCause::kSignal:
      return "signal";
  }
  return "unknown";
}

void FlightDeck::Dump(DumpCause cause, TimePoint now) {
  std::optional<TimePoint>& last = last_[static_cast<std::size_t>(cause)];
  if (last && now - *last < kPause) return;
  last = now;
  write_({.cause = cause, .image = recorder_.Copy()});
}

Result<std::string> DumpFiles::Write(const FlightDump& dump) {
  if (path_.empty()) return Status(Code::kInvalidArgument, "there is no --flight-file beside which to write it");
  const std::string path = path_ + "." + std::to_string(written_++ % kCount + 1);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return net::ErrnoStatus("cannot remove " + path, errno);
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return net::ErrnoStatus("cannot make " + path, errno);
  for (std::size_t written = 0; written < dump.image.size();) {
    const ssize_t n = ::write(fd.get(), dump.image.data() + written, dump.image.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return net::ErrnoStatus("cannot write to " + path, errno);
    written += static_cast<std::size_t>(n);
  }
  return path;
}

}  // namespace ringway::daemon
