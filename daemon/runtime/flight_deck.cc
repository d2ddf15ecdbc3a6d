#include "daemon/runtime/flight_deck.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "proto/flight/reader.h"
#include "proto/stream/address.h"

namespace ringway::daemon {
namespace {

constexpr mode_t kMode = 0600;

Status Refused(const std::string& what) {
  return {Code::kInvalidArgument, "--flight-file: " + what + ": remove it, or give another path"};
}

// Opens a file that a flight recorder has made. Returns no descriptor if there is no file.
Result<net::UniqueFd> OpenOurs(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return net::UniqueFd();
    return net::ErrnoStatus("--flight-file: cannot examine " + path, errno);
  }
  if (!S_ISREG(info.st_mode)) return Refused(path + " is no file");
  net::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return net::ErrnoStatus("--flight-file: cannot open " + path, errno);
  std::uint64_t magic = 0;
  const ssize_t n = ::read(fd.get(), &magic, sizeof magic);
  const bool is_ours = n == 0 || (n == sizeof magic && magic == flight::kMagic);
  if (!is_ours) return Refused(path + " is no file of a flight recorder");
  return fd;
}

// Likewise, and locks it: nobody else writes to it then.
Result<net::UniqueFd> LockOurs(const std::string& path) {
  Result<net::UniqueFd> fd = OpenOurs(path);
  if (!fd.ok() || !fd.value().valid() || ::flock(fd.value().get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return net::ErrnoStatus("--flight-file: cannot lock " + path, errno);
  return Status(Code::kInvalidArgument, "--flight-file: another daemon writes to " + path + ": give each its own");
}

// Whether an image is worth keeping. What another release wrote is.
bool HasRecords(const net::UniqueFd& fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size > static_cast<off_t>(flight::Recorder::kBytes)) return true;
  if (info.st_size < static_cast<off_t>(sizeof(flight::Header))) return false;
  std::string image(static_cast<std::size_t>(info.st_size), '\0');
  if (::pread(fd.get(), image.data(), image.size(), 0) != static_cast<ssize_t>(image.size())) return true;
  const Result<flight::Log> log = flight::Read(std::as_bytes(std::span(image)));
  return !log.ok() || !log.value().records.empty();
}

// Makes way for a new file, whatever the daemon before left there.
Status MoveAway(const std::string& path) {
  const Result<net::UniqueFd> former = LockOurs(path);
  if (!former.ok() || !former.value().valid()) return former.status();
  if (!HasRecords(former.value())) {
    if (::unlink(path.c_str()) == 0) return Status::Ok();
    return net::ErrnoStatus("--flight-file: cannot remove " + path, errno);
  }
  if (const Result<net::UniqueFd> older = LockOurs(path + ".old"); !older.ok()) return older.status();
  if (::rename(path.c_str(), (path + ".old").c_str()) == 0) return Status::Ok();
  return net::ErrnoStatus("--flight-file: cannot rename " + path, errno);
}

Status WriteAll(const net::UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return net::ErrnoStatus("cannot write", n < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return Status::Ok();
}

// Returns a new, locked file of so many bytes, all of which there is room for. It has the mark from its first byte on.
Result<net::UniqueFd> MakeFile(const std::string& path, std::size_t bytes) {
  net::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return net::ErrnoStatus("--flight-file: cannot make " + path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return net::ErrnoStatus("--flight-file: cannot lock " + path, errno);
  const std::string_view mark(reinterpret_cast<const char*>(&flight::kMagic), sizeof flight::kMagic);
  Status status = WriteAll(fd, mark);
  if (status.ok()) {
    const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
    if (error != 0) status = net::ErrnoStatus("no room", error);
  }
  if (status.ok()) return fd;
  (void)::unlink(path.c_str());
  return Status(status.code(), "--flight-file: " + path + ": " + status.text());
}

}  // namespace

Status FlightMemory::Check(const std::string& path) {
  const Result<net::UniqueFd> former = OpenOurs(path);
  if (!former.ok() || !former.value().valid()) return former.status();
  return OpenOurs(path + ".old").status();  // where the former one would go
}

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
  return FlightMemory({static_cast<std::byte*>(memory), kBytes}, std::move(fd));
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

void FlightDeck::Dump(DumpCause cause, const std::string& group, TimePoint now) {
  std::erase_if(last_, [now](const auto& entry) { return now - entry.second >= kPause; });
  if (!last_.try_emplace({group, cause}, now).second) return;
  write_({.cause = cause, .image = recorder_.Copy()});
}

std::string DumpFiles::PathOf(unsigned number) const { return path_ + "." + std::to_string(number + 1); }

unsigned DumpFiles::OldestNumber() const {
  unsigned oldest = 0;
  struct timespec oldest_at {};
  for (unsigned number = 0; number < kCount; ++number) {
    struct stat info {};
    if (::lstat(PathOf(number).c_str(), &info) != 0) return number;
    const bool is_older =
        std::tie(info.st_mtim.tv_sec, info.st_mtim.tv_nsec) < std::tie(oldest_at.tv_sec, oldest_at.tv_nsec);
    if (number > 0 && !is_older) continue;
    oldest = number;
    oldest_at = info.st_mtim;
  }
  return oldest;
}

Result<std::string> DumpFiles::Write(const FlightDump& dump) {
  if (path_.empty()) return Status(Code::kInvalidArgument, "there is no --flight-file beside which to write it");
  if (!next_) next_ = OldestNumber();
  Status refusal;
  for (unsigned i = 0; i < kCount; ++i) {
    const std::string path = PathOf(std::exchange(*next_, (*next_ + 1) % kCount));
    const Result<net::UniqueFd> former = LockOurs(path);
    if (former.ok()) return WriteTo(path, dump);
    refusal = former.status();
  }
  return refusal;
}

Result<std::string> DumpFiles::WriteTo(const std::string& path, const FlightDump& dump) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return net::ErrnoStatus("cannot remove " + path, errno);
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!fd.valid()) return net::ErrnoStatus("cannot make " + path, errno);
  const Status status = WriteAll(fd, dump.image);
  if (status.ok()) return path;
  (void)::unlink(path.c_str());
  return Status(status.code(), path + ": " + status.text());
}

}  // namespace ringway::daemon
