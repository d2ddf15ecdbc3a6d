// Schedules bandwidth probes: dummy bytes sent over all lanes of a pair at full speed, so that a plan knows the rates
// before the first operation. They also open the lanes' congestion windows and find the rate limits. Pure.
//
// A peer probes one other at a time and is probed by one at a time, otherwise they would measure each other. So it asks
// all that are due, starts with the first that grants it, and releases the grant when its turn is over:
//
//   due --ask--> asked --granted--> its turn --bytes or time (3 s) used up: release--> done
//     ^             +-- granted while another has the turn: release; asked again later
//     +-- sending not allowed for a second: release
//
//   probed       when
//   each peer    at once; 15 s later, for the host of a trainer that joins is busy and the first probe may read low;
//                when its route has changed; after 30 min, 1 h .. 8 h, so that a recovered path shows
//   all at once  when none is due any more, and again when there are twice as many; shows the uplink, which may carry
//                more than any one path
//
// To probe all at once, grants are collected one after the other in the order of ids, so that no two peers deadlock; if
// that takes over 5 s, they are released, and collected again after 15 s, 30 s, 1 min .. A turn lasts one more tick
// after the last byte, so that what is in flight is counted. A grant expires after 9 s, whatever its holder does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class Prober {
 public:
  enum class Step : std::uint8_t { kAsk, kGrant, kRelease };  // numbered as control::Probe::Step
  struct Message {
    PeerId to;
    Step step = Step::kAsk;
    friend bool operator==(const Message&, const Message&) = default;
  };

  // The pair is connected, or reconnected: a pending request is lost and is sent again. `bytes`: budget of each probe;
  // 0: no probes.
  void Want(PeerId other, std::uint64_t bytes);
  void Forget(PeerId other);
  // The path's route has changed: probe it again.
  void Again(PeerId other);
  // A message of another peer's Prober.
  void On(PeerId from, Step step, TimePoint now);
  std::vector<Message> TakeMessages();

  // The peers being probed now: none, one, or all.
  const std::set<PeerId>& turn() const { return turn_; }
  // Returns the payload bytes of the next frame to `other`, at most `bytes_max`, and counts them as sent; 0: no more.
  // REQUIRES: turn() contains `other`.
  std::uint32_t Take(PeerId other, std::uint32_t bytes_max);

  // `may_send`: whether probes are allowed now. Returns those whose probe has ended.
  std::set<PeerId> Tick(TimePoint now, bool may_send);

 private:
  static constexpr Duration kTimeMax = std::chrono::seconds(3);
  static constexpr Duration kGatherMax = std::chrono::seconds(5);
  static constexpr Duration kGrantMax = kGatherMax + kTimeMax + std::chrono::seconds(1);
  static constexpr Duration kPauseMax = std::chrono::seconds(1);
  static constexpr int kProbes = 2;
  static constexpr Duration kBetween = std::chrono::seconds(15);
  static constexpr Duration kAgainMin = std::chrono::minutes(30);
  static constexpr Duration kAgainMax = std::chrono::hours(8);

  struct Target {
    std::uint64_t bytes = 0;
    int probes_left = kProbes;
    TimePoint not_before{};
    Duration again_after = kAgainMin;  // pause after the last of its probes
    bool asked = false;
    // ---- of the current probe
    std::uint64_t bytes_left = 0;
    Duration time_left = kTimeMax;

    void Renew() {
      bytes_left = bytes;
      time_left = kTimeMax;
    }
    void EndProbe(TimePoint now);
    bool IsDue(TimePoint now) const { return bytes > 0 && now >= not_before; }
  };

  void OnAsk(PeerId from, TimePoint now);
  void OnGrant(PeerId from, TimePoint now);
  void OnRelease(PeerId from, TimePoint now);
  void Say(PeerId to, Step step) { messages_.push_back({to, step}); }
  // Returns whether the turn is over.
  bool Spend(Duration time);
  void BeginTurn(std::set<PeerId> others);
  void EndTurn();
  void AskAll(TimePoint now);
  bool WantsTogether(TimePoint now) const;
  void GatherNext();
  void GrantNext(TimePoint now);

  // ---- as the prober
  std::map<PeerId, Target> targets_;
  std::set<PeerId> turn_;
  bool together_ = false;        // probing all at once, or collecting grants for it
  std::set<PeerId> kept_;        // grants collected so far
  TimePoint kept_until_{};       // set at the first one
  std::size_t together_of_ = 0;  // how many took part last time
  TimePoint together_not_before_{};
  Duration together_pause_ = kBetween;
  bool might_send_ = false;  // at the last tick
  Duration paused_{};        // how long sending has not been allowed
  bool drains_ = false;      // the bytes were used up a tick ago
  TimePoint last_tick_{};
  // ---- as the probed
  std::deque<PeerId> waiting_;
  std::optional<PeerId> holder_;
  TimePoint held_until_{};

  std::vector<Message> messages_;
};

}  // namespace ringway::flow
