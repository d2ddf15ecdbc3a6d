// A queue of fixed size between two threads: one pushes, the other looks at the front and pops. No lock, no waiting.
//
// What was popped stays in its slot until the pushing thread takes it back, so it is made and destroyed by that thread
// alone: the other borrows it. What the pushing thread wrote before Push is seen after Front; what the other read
// before Pop is read before Reclaim destroys it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace ringway::net {

template <typename T, std::size_t kCapacity>
class SpscRing {
 public:
  // ---- the pushing thread
  // Returns false if the ring is full; then `value` is not taken.
  [[nodiscard]] bool Push(T&& value) {
    Reclaim();
    const std::size_t at = pushed_.load(std::memory_order_relaxed);
    if (at - reclaimed_ == kCapacity) return false;
    slots_[at % kCapacity] = std::move(value);
    pushed_.store(at + 1, std::memory_order_release);
    return true;
  }
  // Destroys what was popped.
  void Reclaim() { ReclaimUpto(popped_.load(std::memory_order_acquire)); }
  // Destroys everything. REQUIRES: the other thread has said that it does not touch the ring any more.
  void Clear() { ReclaimUpto(pushed_.load(std::memory_order_relaxed)); }

  // ---- the popping thread
  // The oldest value, null if there is none. Borrowed until Pop.
  T* Front() {
    const std::size_t at = popped_.load(std::memory_order_relaxed);
    return at == pushed_.load(std::memory_order_acquire) ? nullptr : &slots_[at % kCapacity];
  }
  // REQUIRES: Front() gave one.
  void Pop() { popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  static constexpr std::size_t kCacheLineBytes = 64;

  void ReclaimUpto(std::size_t end) {
    for (; reclaimed_ != end; ++reclaimed_) slots_[reclaimed_ % kCapacity] = T();
  }

  std::array<T, kCapacity> slots_;
  std::size_t reclaimed_ = 0;  // the pushing thread's; reclaimed_ <= popped_ <= pushed_
  alignas(kCacheLineBytes) std::atomic<std::size_t> pushed_ = 0;
  alignas(kCacheLineBytes) std::atomic<std::size_t> popped_ = 0;
};

}  // namespace ringway::net
