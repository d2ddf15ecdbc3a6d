// One sealed memfd and its mapping; the seals rule out truncation, which would raise SIGBUS in the daemon.
//
// The memory is populated before anyone else maps it (first touch through a second mapping is several times slower),
// cannot change its size, and does not exist in forked children.
//
// Movable. The mapping goes with the object, except in a forked child, where nothing is mapped. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ringway/ringway.hpp>

namespace ringway::internal {

class SharedMemory {
 public:
  // Zeroed, `bytes` rounded up to whole pages, at least one. kResourceExhausted if memory or descriptors run out.
  static Result<SharedMemory> Create(std::size_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { Reset(); }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Makes this process's mapping private (copy-on-write), for good: the daemon does not see later writes, nor are its
  // writes seen in pages written here. Concurrent writes of other threads are not lost. Returns false if the system
  // refuses. REQUIRES: the descriptor is open.
  bool Unshare();
  bool shared() const { return shared_; }
  // Replaces this range of the private mapping with the daemon's contents. Returns false if the system refuses.
  bool Fetch(std::size_t offset, std::size_t bytes);

  // For the daemon; -1 after CloseDescriptor. Closed in forked children.
  int descriptor() const { return fd_; }
  void CloseDescriptor();

 private:
  Status MapAndPopulate();
  void Reset();

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool shared_ = true;
  std::uint64_t generation_ = 0;
};

}  // namespace ringway::internal
