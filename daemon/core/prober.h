// Whose turn it is to be probed: bytes that nobody needs, sent over all lanes of one pair at a time as fast as they go,
// so that a plan need not wait for the first operation to know the rates. They also open the lanes' congestion windows
// and show what the path takes. Pure.
//
// Each peer probes one other at a time and is probed by one at a time, else they would measure each other. So a peer
// asks all that it wants to probe, begins with the first that has time for it, and says when it is over:
//
//   wanted --ask--> asked --granted--> its turn --its bytes or its time used up: release--> done
//     ^                 (granted, but the own turn is another's: release)
//     +-- it may not send for a second: release
//
// Each is probed twice, the second time 15 s after the first: when a trainer has just joined, its host is busy (buffers
// are filled, models read), and a probe says too little. What is done is not probed again before it is forgotten. After
// the last byte the turn lasts for one more tick, so that what is under way is still counted. A grant lasts for twice a
// probe's time at most, whatever its holder does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::core {

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
  // What another peer's Prober says.
  void On(PeerId from, Step step, TimePoint now);
  std::vector<Message> TakeMessages();

  std::optional<PeerId> turn() const { return turn_; }
  // Payload bytes of the next frame, `bytes_max` at most, which count as sent; 0: no more. REQUIRES: it is its turn.
  std::uint32_t Take(std::uint32_t bytes_max);

  // `may_send`: whether probes are allowed now. Gives the pair whose probe is over.
  std::optional<PeerId> Tick(TimePoint now, bool may_send);

 private:
  static constexpr Duration kTimeMax = std::chrono::seconds(3);
  static constexpr Duration kPauseMax = std::chrono::seconds(1);
  static constexpr int kProbes = 2;
  static constexpr Duration kBetween = std::chrono::seconds(15);

  struct Target {
    std::uint64_t bytes = 0;
    int probes_left = kProbes;
    // ---- of the probe
    std::uint64_t bytes_left = 0;
    Duration time_left = kTimeMax;
    TimePoint not_before{};
    bool asked = false;
  };

  void OnAsk(PeerId from, TimePoint now);
  void OnGrant(PeerId from, TimePoint now);
  void OnRelease(PeerId from, TimePoint now);
  void Say(PeerId to, Step step) { messages_.push_back({to, step}); }
  void EndTurn();
  void AskAll(TimePoint now);
  void GrantNext(TimePoint now);

  // ---- as the one that probes
  std::map<PeerId, Target> targets_;
  std::optional<PeerId> turn_;
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

}  // namespace ringway::core
