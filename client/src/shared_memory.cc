#include "client/src/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ringway::internal {
namespace {

Status Exhausted(const char* what, std::size_t bytes, int reason) {
  return Status(Code::kResourceExhausted, std::string(what) + " of " + std::to_string(bytes) +
                                              " bytes of shared memory failed: " + std::strerror(reason) +
                                              "; free memory, or raise the limits of memory and descriptors");
}

// Returns the bytes that the system reports as available, swap included; the maximum if it does not report them. Does
// not see container limits.
std::size_t AvailableBytes() {
  constexpr std::size_t kAnything = std::numeric_limits<std::size_t>::max();
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/meminfo", "re"), std::fclose);
  char line[128];
  std::size_t available = 0;
  std::size_t swap = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) available = kib * 1024;
    if (std::sscanf(line, "SwapFree: %llu kB", &kib) == 1) swap = kib * 1024;
  }
  return available > 0 ? available + swap : kAnything;
}

// The daemon refuses a region without: it would wait for the kernel while it reduces.
bool HasAllPages(int fd, std::size_t bytes) {
  struct stat file = {};
  return fstat(fd, &file) == 0 && static_cast<std::size_t>(file.st_blocks) >= bytes / 512;
}

}  // namespace

Result<SharedMemory> SharedMemory::Create(std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Populating more would wake the OOM killer.
  if (const std::size_t available = AvailableBytes(); bytes > available) {
    return Status(Code::kResourceExhausted, std::to_string(bytes) +
                                                " bytes of shared memory do not fit: the host has " +
                                                std::to_string(available) + " available");
  }
  SharedMemory memory;
  memory.generation_ = ForkGeneration();
  memory.bytes_ = (std::max<std::size_t>(bytes, 1) + page_bytes - 1) / page_bytes * page_bytes;
  memory.fd_ = OpenGuarded([] { return memfd_create("ringway", MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (memory.fd_ < 0) return Exhausted("memfd_create", bytes, errno);
  if (Status error = memory.MapAndPopulate(); !error.ok()) return error;
  if (fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Exhausted("Sealing", bytes, errno);
  }
  return memory;
}

Status SharedMemory::MapAndPopulate() {
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) return Exhausted("ftruncate", bytes_, errno);
  void* const address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (address == MAP_FAILED) return Exhausted("mmap", bytes_, errno);
  data_ = static_cast<std::byte*>(address);
  if (madvise(address, bytes_, MADV_DONTFORK) != 0) return Exhausted("MADV_DONTFORK", bytes_, errno);
  if (madvise(address, bytes_, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return Exhausted("Populating", bytes_, errno);
  } else if (HasAllPages(fd_, bytes_)) {
    return {};
  }
  // Kernels before 5.14 refuse that advice, and qemu-user ignores it. Reserving first makes a lack of memory an error
  // here; touching alone would raise SIGBUS.
  if (fallocate(fd_, 0, 0, static_cast<off_t>(bytes_)) != 0) return Exhausted("fallocate", bytes_, errno);
  std::memset(address, 0, bytes_);
  return {};
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  fd_ = std::exchange(other.fd_, -1);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  shared_ = std::exchange(other.shared_, true);
  generation_ = other.generation_;
  return *this;
}

// Maps elsewhere first: if the system refuses, the old mapping is unchanged.
bool SharedMemory::Unshare() {
  if (!shared_) return true;
  void* const copy = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_, 0);
  if (copy == MAP_FAILED) return false;
  const bool moved = madvise(copy, bytes_, MADV_DONTFORK) == 0 &&
                     mremap(copy, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) != MAP_FAILED;
  if (!moved) munmap(copy, bytes_);
  shared_ = !moved;
  return moved;
}

bool SharedMemory::Fetch(std::size_t offset, std::size_t bytes) {
  for (std::size_t end = offset + bytes; offset < end;) {
    const ssize_t got = pread(fd_, data_ + offset, end - offset, static_cast<off_t>(offset));
    if (got <= 0 && errno != EINTR) return false;
    offset += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

void SharedMemory::CloseDescriptor() {
  if (fd_ >= 0 && generation_ == ForkGeneration()) CloseGuardedDescriptor(fd_);
  fd_ = -1;
}

void SharedMemory::Reset() {
  CloseDescriptor();
  // In a forked child something else may be mapped at this address.
  if (data_ != nullptr && generation_ == ForkGeneration()) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace ringway::internal
