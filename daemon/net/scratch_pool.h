// A fixed pool of receive buffers for payloads that are reduced before they reach memory.
//
// Two sizes: small (256 KiB, the usual segment) and large (kPayloadBytesMax), 16 MiB in all, mapped at once but touched
// only as used. Reuse is last in, first out, for the cache. When a size has run out, lanes queue, and each returned
// buffer goes to the first one that still exists.
//
// Thread: one (the data thread). Lifetime: outlives every Scratch and every waiter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace ringway::net {

class ScratchPool;

// A borrowed buffer; returned when destroyed.
class Scratch {
 public:
  Scratch() = default;
  Scratch(ScratchPool* pool, std::byte* data, bool large) : pool_(pool), data_(data), large_(large) {}
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch() { Reset(); }
  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  void Reset();

 private:
  ScratchPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  bool large_ = false;
};

class ScratchWaiter {
 public:
  virtual ~ScratchWaiter() = default;
  // Delivers the awaited buffer. Called within another holder's Scratch::Reset: keep it and continue later.
  virtual void OnScratch(Scratch scratch) = 0;
};

struct ScratchPoolOptions {
  std::size_t small_count = 48;
  std::size_t large_count = 4;
};

class ScratchPool {
 public:
  static constexpr std::size_t kSmallBytes = 256 * 1024;

  explicit ScratchPool(const ScratchPoolOptions& options = {});
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // Returns a buffer of at least `bytes`, or none: then Wait. REQUIRES: bytes <= kPayloadBytesMax.
  Scratch Acquire(std::size_t bytes);
  void Wait(std::size_t bytes, std::weak_ptr<ScratchWaiter> waiter);
  // Sink for discarded bytes; all may write here.
  std::span<std::byte> trash() { return trash_; }

 private:
  friend class Scratch;
  struct Size {
    std::vector<std::byte*> free;
    std::deque<std::weak_ptr<ScratchWaiter>> waiters;
  };
  void Return(std::byte* data, bool large);
  Size& SizeFor(bool large) { return large ? large_ : small_; }

  Size small_;
  Size large_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::vector<std::byte> trash_;
};

}  // namespace ringway::net
