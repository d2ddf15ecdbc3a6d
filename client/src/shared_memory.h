// One sealed memfd and its mapping: what the daemon may map without fearing that it shrinks.
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
  // Zeroed, `bytes` rounded up to whole pages, at least one. kResourceExhausted where memory or descriptors lack.
  static Expected<SharedMemory> Create(std::size_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { Reset(); }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // From now on this process has a private copy, page by page as it writes: the daemon does not see what is written,
  // nor is what the daemon writes seen in those pages. Writes of other threads meanwhile are not lost. False where the
  // system refuses. For good. REQUIRES: the descriptor is open.
  bool Unshare();
  bool shared() const { return shared_; }
  // What the daemon has of this range replaces what this process has. False where the system refuses.
  bool Fetch(std::size_t offset, std::size_t bytes);

  // To be sent to a daemon; -1 after CloseDescriptor. Closed in forked children.
  int descriptor() const { return fd_; }
  void CloseDescriptor();

 private:
  Error MapAndPopulate();
  void Reset();

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool shared_ = true;
  std::uint64_t generation_ = 0;
};

}  // namespace ringway::internal
