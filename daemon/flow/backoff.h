// The pause between two tries of the same remedy: it doubles where the remedy is wanted again soon, for then it did not
// help. Pure.
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
