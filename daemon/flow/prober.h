// Whose turn it is to be probed: bytes that nobody needs, sent over all lanes of a pair as fast as they go, so that a
// plan need not wait for the first operation to know the rates. They also open the lanes' congestion windows and show
// what the path takes. Pure.
//
// Each peer probes one other at a time and is probed by one at a time, else they would measure each other. So a peer
// asks all that it wants to probe, begins with the first that has time for it, and says when it is over:
//
//   wanted --ask--> asked --granted--> its turn --its bytes or its time used up: release--> done
//     ^                 (granted, but the own turn is another's: release)
//     +-- it may not send for a second: release
//
// Each is probed twice, the second time 15 s after the first: when a trainer has just joined, its host is busy (buffers
// are filled, models read), and a probe says too little. Then once more when its route has changed, and after pauses of
// half an hour, an hour .. eight hours: a plan that avoids a slow path would not see that it has recovered. After the
// last byte the turn lasts for one more tick, so that what is under way is still counted. A grant lasts for 9 s at
// most, whatever its holder does.
//
// When nobody is left to be probed, all are once more, together, as fast as the uplink's pace lets them: that shows
// what the way out takes, which may be more than any path. They are asked one after the other, by their ids, so that no
// two peers wait for what the other holds. Where that takes over 5 s, they are let go, and asked again after pauses of
// 15 s, 30 s, 1 min ... It is done again when there are twice as many.
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

  // `bytes`: to spend on it at most, each time; 0: none. For a pair that stands, or stands again: what was asked before
  // is lost.
  void Want(PeerId other, std::uint64_t bytes);
  void Forget(PeerId other);
  // Its path is not what it was.
  void Again(PeerId other);
  // What another peer's Prober says.
  void On(PeerId from, Step step, TimePoint now);
  std::vector<Message> TakeMessages();

  // Whom it sends to now: nobody, one, or all.
  const std::set<PeerId>& turn() const { return turn_; }
  // Payload bytes of the next frame to `other`, `bytes_max` at most, which count as sent; 0: no more. REQUIRES: it is
  // its turn.
  std::uint32_t Take(PeerId other, std::uint32_t bytes_max);

  // `may_send`: whether probes are allowed now. Gives those whose probe is over.
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
    Duration again_after = kAgainMin;  // the last of its probes
    bool asked = false;
    // ---- of the probe
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
  // Gives whether the turn is over.
  bool Spend(Duration time);
  void BeginTurn(std::set<PeerId> others);
  void EndTurn();
  void AskAll(TimePoint now);
  bool WantsTogether(TimePoint now) const;
  void GatherNext();
  void GrantNext(TimePoint now);

  // ---- as the one that probes
  std::map<PeerId, Target> targets_;
  std::set<PeerId> turn_;
  bool together_ = false;        // the turn is all others', or is going to be
  std::set<PeerId> kept_;        // who has granted it meanwhile
  TimePoint kept_until_{};       // since there is one
  std::size_t together_of_ = 0;  // how many they were the last time
  TimePoint together_not_before_{};
  Duration together_pause_ = kBetween;
  bool might_send_ = false;  // at the last tick
  Duration paused_{};        // for so long it could not send in its turn
  bool drains_ = false;      // its bytes were used up a tick ago
  TimePoint last_tick_{};
  // ---- as the one that is probed
  std::deque<PeerId> waiting_;
  std::optional<PeerId> holder_;
  TimePoint held_until_{};

  std::vector<Message> messages_;
};

}  // namespace ringway::flow
