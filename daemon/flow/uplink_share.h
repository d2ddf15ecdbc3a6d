// Paces all pairs of a host to the uplink's rate while two or more of them send. Pure.
//
// A pair that sends alone is limited by its own path only: the uplink's rate was measured with several, and says
// nothing of one. Pairs that start together are paced from the first segment on, so that bursts shorter than any
// measurement window do not overflow. Each waits for tokens for one segment; a caller that offers the pairs in turn
// shares the uplink fairly.
#pragma once

#include <compare>

#include "daemon/flow/token_bucket.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

struct PathKey {
  PeerId self;
  PeerId other;
  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};

class UplinkShare {
 public:
  // A pair that neither sent nor waited for so long counts as idle.
  static constexpr Duration kSilent = std::chrono::milliseconds(50);

  // Bytes per second; 0: unlimited.
  void SetRate(double rate) { bucket_.SetRate(rate); }

  // How long the pair's next segment has to wait; 0: it may be sent.
  Duration Wait(const PathKey& pair, TimePoint now);
  void OnSent(const PathKey& pair, double bytes, TimePoint now);
  // Small-lane traffic: charged to the rate; a pair that sends nothing else counts as idle.
  void OnSentAside(double bytes) { bucket_.OnSent(bytes); }

 private:
  bool IsAlone(const PathKey& pair, TimePoint now) const;
  void MarkActive(const PathKey& pair, TimePoint until);

  TokenBucket bucket_;
  PathKey latest_;         // the pair that was active last
  TimePoint latest_at_{};  // until when; may be in the future
  TimePoint others_at_{};  // until when the last of the others was
};

}  // namespace ringway::flow
