// Exponential backoff between two attempts at the same remedy: the pause doubles if the remedy is needed again within
// four pauses, for then it did not help; otherwise it is reset to the minimum. Pure.
#pragma once

#include <algorithm>

#include "proto/clock.h"

namespace ringway::flow {

class Backoff {
 public:
  struct Bounds {
    Duration min{};
    Duration max{};
  };

  bool IsOver(TimePoint now) const { return now - tried_ >= pause_; }
  void OnTry(const Bounds& bounds, TimePoint now) {
    pause_ = now - tried_ < kSoon * pause_ ? std::min(2 * pause_, bounds.max) : bounds.min;
    tried_ = now;
  }

 private:
  static constexpr int kSoon = 4;  // pauses
  TimePoint tried_{};
  Duration pause_{};
};

}  // namespace ringway::flow
