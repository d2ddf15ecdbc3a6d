// What a peer does now, for operators: how many operations a second, how long the newest took, and how much it sends to
// whom.
//
// Rates are means over a window of kWindow or a little more, so they change once a window; the time of an operation is
// the mean of the newest kNewest, however long ago they ended. A peer whose trainer submits last has the shortest: it
// waits for nobody.
//
// Pure. Threads: one. Bounded by the pairs that the owner looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::daemon {

class LiveRates {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(2);
  static constexpr std::size_t kNewest = 8;
  static constexpr int kPathsMax = 64;  // that WriteTo fills in
  struct Sent {
    std::uint64_t bytes = 0;         // since it began; only grows while the pair is there
    std::uint64_t resent_bytes = 0;  // by the kernel, on the lanes that are up
  };
  using Paths = std::map<PeerId, Sent>;

  // One that succeeded.
  void OnOperation(Duration took);
  // Returns whether a window is over: then Look is due.
  bool IsDue(TimePoint now) const { return !begun_ || now - *begun_ >= kWindow; }
  void Look(TimePoint now, Paths sent);

  double operations_per_second() const { return operations_per_second_; }
  // Mean of the newest; 0: there was none.
  Duration operation() const;
  // 0 for a pair that is not known, or idle.
  std::uint64_t bytes_per_second(PeerId other) const;
  // Fills in all but what waits.
  void WriteTo(control::PeerLive& live) const;

 private:
  std::optional<TimePoint> begun_;  // the window
  std::uint64_t operations_ = 0;    // in it
  Paths sent_;                      // when it began
  double operations_per_second_ = 0;
  std::deque<Duration> newest_;
  std::map<PeerId, Sent> rates_;  // a second
};

}  // namespace ringway::daemon
