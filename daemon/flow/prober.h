// Schedules bandwidth probes: dummy bytes sent over all lanes of a pair at full speed, so that a plan knows the rates
// before the first operation. They also open the lanes' congestion windows and find the rate limits. Pure.
//
// A host probes one other at a time and is probed by one at a time, otherwise they would measure each other. So a peer
// asks all that are due, starts with the first that grants it, and releases the grant when its turn is over:
//
//   due --ask--> asked --granted--> its turn --settled, or bytes or time (3 s) used up: release--> done
//     ^             +-- granted while another has the turn: release; asked again later
//     +-- not allowed for a second, for one of the hosts has work (stop, until it grants again): release
//
//   probed       when
//   each host    at once; 15 s later if that is in doubt; when its route has changed; every 8 h. A slow path also after
//                30 min, 1 h, 2 h and 4 h, so that a recovered one shows
//   all at once  when none is due any more, and again when there are twice as many; shows the uplink, which may carry
//                more than any one path
//
// Only paths that could change a plan are probed: all of them while there are at most four other hosts. With more hosts
// these are the paths to the neighbours on the view's rings, and the rest once one of these carries less than the
// uplink, so that it is worth to go around it. What is known of a host, when it is due, and its bytes a day are in the
// ProbeBook that all peers of a host share.
//
// To probe all at once, one peer of each host is asked for a grant at the same time; after 5 s the turn begins with
// those that have granted, if they are half of all; else it is put off with exponential backoff (15 s, 30 s, 1 min,
// ...) and jitter. A turn that does not settle lasts one more tick after the last byte, so that what is in flight is
// counted. A grant expires after 9 s, whatever its holder does. A host that has had work for a second is put off for
// 15 s.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/flow/probe_book.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class Prober {
 public:
  // Numbered as control::Probe::Step.
  enum class Step : std::uint8_t { kAsk, kGrant, kRelease, kStop };
  struct Message {
    PeerId to;
    Step step = Step::kAsk;
    friend bool operator==(const Message&, const Message&) = default;
  };
  // A turn that is over.
  struct Ended {
    std::set<PeerId> others;  // none: no turn has ended
    std::uint64_t bytes = 0;
    Duration lasted{};
    bool settled = false;
  };

  Prober(PeerId self, std::shared_ptr<ProbeBook> book) : self_(self), book_(std::move(book)) {}
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // The pair is connected, or reconnected: a pending request is lost and is sent again. `host`: the other's, empty if
  // it is this one. `bytes`: budget of each probe; 0: no probes.
  void Want(PeerId other, const std::string& host, std::uint64_t bytes, TimePoint now);
  void Forget(PeerId other);
  // The neighbours on the rings of the view.
  void SetUsed(std::set<PeerId> used) { used_ = std::move(used); }
  // The path's route has changed: probe it again.
  void Again(PeerId other);
  // The measured rate of the path to `other`, or of the uplink. RateTo returns 0 if it is not known.
  void Learn(std::optional<PeerId> other, double rate);
  double RateTo(std::optional<PeerId> other) const;
  // Returns the rates that probes of other peers of this host have shown since the last call.
  std::map<PeerId, double> TakeProbed();
  // A message of another peer's Prober.
  void On(PeerId from, Step step, TimePoint now);
  std::vector<Message> TakeMessages();

  // Returns the peers being probed now: none, one, or several.
  const std::set<PeerId>& turn() const;
  // Returns the payload bytes of the next frame to `other`, at most `bytes_max`, and counts them as sent; 0: no more.
  // REQUIRES: turn() contains `other`.
  std::uint32_t Take(PeerId other, std::uint32_t bytes_max);
  // The turn has measured enough: nothing more is sent, and it ends with the next tick.
  void Settle() { settled_ = true; }

  // `may_send`: whether probes are allowed now.
  Ended Tick(TimePoint now, bool may_send);
  // Those whose rate is not known, each once a minute: what operations show of them has to do.
  std::set<PeerId> TakeOverdue(TimePoint now);

 private:
  static constexpr Duration kTimeMax = std::chrono::seconds(3);
  static constexpr Duration kGatherMax = std::chrono::seconds(5);
  static constexpr Duration kGrantMax = kGatherMax + kTimeMax + std::chrono::seconds(1);
  static constexpr Duration kPauseMax = std::chrono::seconds(1);
  static constexpr Duration kOverdue = std::chrono::minutes(1);
  static constexpr std::size_t kFewHosts = 4;
  static constexpr std::uint64_t kWorthwhilePart = 8;  // of its bytes; a probe of less shows nothing

  struct Budget {
    std::uint64_t bytes = 0;
    Duration time = kTimeMax;
  };
  struct Target {
    std::string host;
    std::uint64_t bytes = 0;
    TimePoint wanted_at{};
    std::uint64_t serial = 0;  // of the host's last probe whose rate is known here
    bool asked = false;
    Budget left;  // of the current probe
  };
  using Hosts = std::map<std::string, PeerId>;  // the first peer of each that may be probed

  void OnAsk(PeerId from, TimePoint now);
  void OnGrant(PeerId from, TimePoint now);
  void OnRelease(PeerId from, TimePoint now);
  void OnStop(PeerId from);
  void Say(PeerId to, Step step) { messages_.push_back({to, step}); }
  void Ask(PeerId other);
  // Returns whether the turn is over.
  bool Spend(Duration time);
  // REQUIRES: a turn.
  Budget& budget();
  std::uint64_t BytesOf(const std::set<PeerId>& others) const;
  void BeginTurn(std::set<PeerId> others);
  Ended Conclude(TimePoint now);
  void EndTurn();
  // Begins the turn with the grants that were gathered, or puts it off.
  void EndGathering(TimePoint now);
  void AskDue(TimePoint now);
  void AskEach(TimePoint now);
  bool WantsTogether(TimePoint now);
  Hosts HostsToProbe() const;
  // Those that a plan could change by.
  Hosts WorthProbing() const;
  // Returns whether the day's bytes are enough for a probe.
  bool IsWorthwhile(const Target& target, TimePoint now);
  bool IsDue(const Target& target, TimePoint now);
  // The part of the probed peer.
  void KeepGrant(TimePoint now);
  void DropGrant();
  void GrantNext(TimePoint now);

  const PeerId self_;
  const std::shared_ptr<ProbeBook> book_;
  // ---- as the prober
  std::map<PeerId, Target> targets_;
  std::set<PeerId> used_;
  std::set<PeerId> turn_;
  std::set<PeerId> stopped_;     // peers of the turn whose hosts have work
  bool together_ = false;        // probing several at once, or collecting grants for it
  std::optional<Budget> joint_;  // of the current probe of several
  std::set<PeerId> kept_;        // grants collected so far
  TimePoint kept_until_{};       // when those expire
  bool might_send_ = false;      // at the last tick
  Duration paused_{};            // how long sending has not been allowed
  bool drains_ = false;          // the bytes were used up a tick ago
  bool settled_ = false;
  Ended current_;  // of the turn
  TimePoint last_tick_{};
  // ---- as the probed
  std::deque<PeerId> waiting_;
  std::optional<PeerId> holder_;
  TimePoint held_until_{};
  bool may_be_probed_ = true;  // the last answer to the holder

  std::vector<Message> messages_;
};

}  // namespace ringway::flow
