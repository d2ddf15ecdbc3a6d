// A bounded lock-free queue between two threads: one pushes, the other reads the front and pops.
//
// A popped value stays in its slot until the pushing thread reclaims it, so only that thread constructs and destroys
// values: the other borrows them. Writes before Push happen before reads after Front; reads before Pop happen before
// Reclaim destroys the value.
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
  // Destroys popped values.
  void Reclaim() { ReclaimUpto(popped_.load(std::memory_order_acquire)); }
  // Destroys all values. REQUIRES: the other thread does not touch the ring any more.
  void Clear() { ReclaimUpto(pushed_.load(std::memory_order_relaxed)); }

  // ---- the popping thread
  // The oldest value, null if there is none. Borrowed until Pop.
  T* Front() {
    const std::size_t at = popped_.load(std::memory_order_relaxed);
    return at == pushed_.load(std::memory_order_acquire) ? nullptr : &slots_[at % kCapacity];
  }
  // REQUIRES: Front() is not null.
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
