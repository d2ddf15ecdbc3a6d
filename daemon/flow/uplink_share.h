// Holds what several pairs send through one uplink to a rate, as long as two or more of them send. Pure.
//
// Who sends alone is held by its own path's limit only: what an uplink gave to several says nothing of that. Pairs that
// begin together are held from the first segment on, so that bursts shorter than any measurement do not overflow. Each
// waits for room for one segment; a caller that offers the pairs in turn shares the uplink fairly.
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
  // Who neither sent nor waited to for so long does not send.
  static constexpr Duration kSilent = std::chrono::milliseconds(50);

  // Bytes per second; 0: as fast as it goes.
  void SetRate(double rate) { pace_.SetRate(rate); }

  // How long the pair's next segment has to wait, if there is one; 0: it may go.
  Duration Wait(const PathKey& pair, TimePoint now);
  void OnSent(const PathKey& pair, double bytes, TimePoint now);
  // What went without waiting; who sends only that does not count as sending.
  void OnSentAside(double bytes) { pace_.OnSent(bytes); }

 private:
  bool IsAlone(const PathKey& pair, TimePoint now) const;
  void SeeUntil(const PathKey& pair, TimePoint until);

  TokenBucket pace_;
  PathKey latest_;
  TimePoint latest_at_{};  // it sends until then; maybe yet to come
  TimePoint others_at_{};  // the last of the others did
};

}  // namespace ringway::flow
