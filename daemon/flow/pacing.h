// Paces by tokens: one pair to its path's rate, over all of its lanes together (TokenBucket), and all pairs of a host
// to the uplink's (UplinkShare). Pure.
#pragma once

#include <compare>
#include <map>
#include <set>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

// Small-lane traffic bypasses the bucket but is charged to it: large segments make room, up to a debt of 100 ms.
//
// One limit a lane would waste rate wherever a lane cannot use its share, during loss recovery or bbr's PROBE_RTT. Here
// the next segment goes to whichever lane has room, as soon as the pair has tokens. Tokens of up to 4 ms (at least
// 256 KiB) are kept, to make up for late timers.
class TokenBucket {
 public:
  // Bytes per second; 0: unlimited.
  void SetRate(double rate);
  double rate() const { return rate_; }

  // Returns how long the next segment has to wait; 0 if it may be sent.
  Duration Wait(TimePoint now);
  void OnSent(double bytes);
  // Charges retransmissions of TCP, as a debt of at most 100 ms, so new segments are never held for long.
  void OnResent(double bytes);

 private:
  double rate_ = 0;
  double credit_ = 0;  // bytes that may be sent now; a segment may overdraw it
  TimePoint filled_{};
};

// Decides whether a sender is pace-limited, by the time that it had to wait.
class WaitMeter {
 public:
  // `wait` is what Wait returned for the next segment.
  void Add(Duration wait, TimePoint now);
  // Returns whether segments waited for over half of the time since the last call.
  bool TakeHeld(TimePoint now);

 private:
  Duration last_wait_{};
  TimePoint last_at_{};
  Duration waited_{};
  TimePoint taken_{};
};

inline constexpr unsigned kStateShareDefault = 50;  // percent

struct PathKey {
  PeerId self;
  PeerId other;
  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};

// Paces all pairs of a host to the uplink's rate while two or more of them send, and always to the operator's limit, if
// there is one.
//
// A pair that sends alone is limited by its own path only, because the uplink's rate was measured with several pairs.
// Pairs that start together are paced from the first segment on, so that bursts shorter than any measurement window do
// not overflow. Each waits for tokens for one segment.
//
// Fair: a peer (a group of this host) that offers its pairs in turn shares fairly among them; among peers, one that has
// sent over 256 KiB more than another that waits yields, for a millisecond at a time. Otherwise the peer whose timer
// fires first would take every token. Idle time earns no credit. Each byte of a background peer counts for more, so
// that it gets its share of the uplink while others wait, and all of it while none does.
class UplinkShare {
 public:
  // A pair that neither sent nor waited for so long counts as idle.
  static constexpr Duration kSilent = std::chrono::milliseconds(50);

  // `allowed`: the operator's limit in bytes per second; 0: none.
  explicit UplinkShare(double allowed = 0) { SetAllowed(allowed); }

  // Bytes per second; 0: unlimited.
  void SetRate(double rate);
  void SetAllowed(double allowed);
  double allowed() const { return allowed_; }
  // Share of a background peer beside one other; REQUIRES: more than 0, less than 1.
  void SetBackgroundShare(double share) { background_cost_ = (1 - share) / share; }
  void SetBackground(PeerId self) { background_.insert(self); }

  // Returns how long the pair's next segment has to wait; 0 if it may be sent.
  Duration Wait(const PathKey& pair, TimePoint now);
  void OnSent(const PathKey& pair, double bytes, TimePoint now);
  // Small-lane traffic: charged to the rate; a pair that sends nothing else counts as idle.
  void OnBypassed(double bytes) { bucket_.OnSent(bytes); }
  void OnResent(double bytes) { bucket_.OnResent(bytes); }
  void Forget(PeerId self) {
    peers_.erase(self);
    background_.erase(self);
  }

 private:
  bool IsAlone(const PathKey& pair, TimePoint now) const;
  void MarkActive(const PathKey& pair, TimePoint until);
  // A peer's use of the uplink, while it was contended.
  struct Peer {
    double sent = 0;
    TimePoint active_until{};
    TimePoint waits_until{};  // it asks again by then if it has more to send
  };
  Peer& ActivePeer(PeerId self, TimePoint until, TimePoint now);
  bool IsAheadOfOneThatWaits(PeerId self, double sent, TimePoint now) const;

  void Apply();

  double allowed_ = 0;
  double rate_ = 0;  // as measured
  TokenBucket bucket_;
  std::map<PeerId, Peer> peers_;
  std::set<PeerId> background_;
  double background_cost_ = (100.0 - kStateShareDefault) / kStateShareDefault;  // times the bytes
  PathKey latest_;                                                              // the pair that was active last
  TimePoint latest_at_{};                                                       // until when; may be in the future
  TimePoint others_at_{};                                                       // until when the last of the others was
};

}  // namespace ringway::flow
