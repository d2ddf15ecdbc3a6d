// How often something took how long: histograms of a peer, which its status and /metrics show.
//
// Monotonic for the lifetime of the peer. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/clock.h"

namespace ringway {

// Bounds double from 1 ms to 65.536 s.
class DurationCounts {
 public:
  static constexpr std::size_t kBounds = 17;
  static constexpr Duration Bound(std::size_t i) { return std::chrono::milliseconds(1) * (std::int64_t{1} << i); }

  void Add(Duration took) {
    std::size_t i = 0;
    while (i < kBounds && took > Bound(i)) ++i;
    ++counts_[i];
    sum_ += std::max(took, Duration::zero());
  }
  // Counts by the least bound that is not below the duration; the last counts those beyond all bounds.
  const std::array<std::uint64_t, kBounds + 1>& counts() const { return counts_; }
  Duration sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds + 1> counts_{};
  Duration sum_{};
};

struct PeerDurations {
  DurationCounts operation;  // from submission to success
  DurationCounts detection;  // of a member that was lost: from its last sign of life until it was accused here
  DurationCounts recovery;   // from the stop of a view to the next one
};

struct PeerDurationInfo {
  std::string_view name;
  std::string_view help;
  DurationCounts PeerDurations::*member;
};

inline constexpr std::array kPeerDurations = {
    PeerDurationInfo{"operation", "From submission to success.", &PeerDurations::operation},
    PeerDurationInfo{"detection", "Of lost members: from the last sign of life to the accusation.",
                     &PeerDurations::detection},
    PeerDurationInfo{"recovery", "From the stop of a view to the next one.", &PeerDurations::recovery}};

}  // namespace ringway
