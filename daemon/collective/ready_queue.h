// Segments that wait to be sent to one rank: a ring buffer that allocates to grow alone, for every segment goes through
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ringway::collective {

// A segment that may be sent: of which departure, and which.
struct Ready {
  std::uint32_t departure = ~std::uint32_t{0};
  std::uint32_t segment = 0;
};

class ReadyQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // REQUIRES, of these two: !empty().
  const Ready& front() const { return slots_[begin_]; }
  void PopFront() {
    begin_ = Wrap(begin_ + 1);
    --size_;
  }
  void PushBack(const Ready& ready) {
    GrowIfFull();
    slots_[Wrap(begin_ + size_++)] = ready;
  }
  void PushFront(const Ready& ready) {
    GrowIfFull();
    begin_ = Wrap(begin_ + slots_.size() - 1);
    slots_[begin_] = ready;
    ++size_;
  }

 private:
  static constexpr std::size_t kSlotsMin = 8;  // a power of two, as all sizes

  std::size_t Wrap(std::size_t at) const { return at & (slots_.size() - 1); }
  void GrowIfFull() {
    if (size_ < slots_.size()) return;
    std::vector<Ready> larger(slots_.empty() ? kSlotsMin : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = slots_[Wrap(begin_ + i)];
    slots_ = std::move(larger);
    begin_ = 0;
  }

  std::vector<Ready> slots_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ringway::collective
