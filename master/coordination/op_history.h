// How the operations of one group have done over the last hour: a sample every kEvery while it has any. Pure.
//
// A value; threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "proto/clock.h"

namespace ringway {

class OpHistory {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(20);
  static constexpr std::size_t kMax = 180;  // an hour

  struct Sample {
    TimePoint at{};
    float operations_per_second = 0;
    float operation_ms = 0;  // mean
    std::uint32_t world = 0;
  };

  bool IsDue(TimePoint now) const { return !last_ || now - *last_ >= kEvery; }
  // Idle groups keep no samples. REQUIRES: IsDue(sample.at).
  void Add(const Sample& sample) {
    last_ = sample.at;
    const bool is_idle = sample.operations_per_second <= 0;
    if (is_idle && (samples_.empty() || samples_.back().operations_per_second <= 0)) return;
    if (samples_.size() == kMax) samples_.pop_front();
    samples_.push_back(sample);
  }
  // The oldest first; one without operations ends a busy time.
  const std::deque<Sample>& samples() const { return samples_; }

 private:
  std::optional<TimePoint> last_;
  std::deque<Sample> samples_;
};

}  // namespace ringway
