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
//   each host    at once, or when it first grants one; 15 s later if that is in doubt; when its route has changed;
//                every 8 h. A slow path also after 30 min, 1 h, 2 h and 4 h, so that a recovered one shows. After 2 min
//                a host that has granted none delays others no more
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
#include <span>
#include <string>
#include <vector>

#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

// A host's measurements of its paths to other hosts, and its probing budget, for all peers and groups of the daemon,
// also later ones. One a daemon, shared by the Probers of its peers.
//
// Peers of one host share its paths, so one of them probes for all, and a peer that joins anew gets what was
// measured before. A host is the address that its connections come from, so hosts behind one address translator count
// as one.
//
//   one at a time    of this host's peers probes others, and one of them is probed: two would measure each other
//   not beside work  none while any peer of this host has an operation in flight, or had one just now
//   bytes            half of --probe-bytes-a-day at once, and as much more in the course of a day, to each host; at
//                    most half of them warm paths, so that peers that join again and again leave probes as much
class ProbeBook {
 public:
  // Bound of what warms paths to a host where probes have none; a quarter of the default --probe-bytes-a-day.
  static constexpr double kUnlimitedWarmBytes = 256 << 20;
  static constexpr Duration kBetween = std::chrono::seconds(15);
  static constexpr Duration kAgainMin = std::chrono::minutes(30);
  static constexpr Duration kAgainMax = std::chrono::hours(8);
  // A host that has granted no probe for so long delays those of others no more; it is still asked.
  static constexpr Duration kNewMax = std::chrono::minutes(2);
  static constexpr std::size_t kHostsMax = 4096;

  // Another host.
  struct Host {
    int probes = 0;                       // first ones, up to two
    std::optional<TimePoint> asked_at{};  // first, for a probe
    bool rerouted = false;                // since the last probe
    std::uint64_t serial = 0;             // of the last probe: peers that know an older one have something to learn

    // It has not been probed yet, and may still grant it: others wait for it, but not for ever.
    bool IsNew(TimePoint now) const { return probes == 0 && !(asked_at && now - *asked_at >= kNewMax); }
    double rate() const { return rate_; }  // of the path to it, bytes per second; 0: not known
    void OnProbed(TimePoint now);
    // It has been at work for too long: not before kBetween.
    void PutOff(TimePoint now) { not_before = now + kBetween; }

   private:
    friend class ProbeBook;
    double rate_ = 0;
    TimePoint probed_at{};
    TimePoint not_before{};
    Duration again_after = kAgainMin;
    double spent = 0;          // bytes; runs off
    double spent_warming = 0;  // likewise, at half the rate
    TimePoint spent_at{};
    std::uint64_t used = 0;  // when it was last asked for, for At
  };
  // The uplink to all hosts at once.
  struct Uplink {
    double rate = 0;
    std::size_t hosts = 0;  // that there were at the last probe of it
    TimePoint not_before{};
    Duration pause = kBetween;  // after one that did not come about
    std::uint64_t failures = 0;
  };
  enum class Slot : std::uint8_t { kProbes, kIsProbed };

  // 0: as many as they like.
  explicit ProbeBook(std::uint64_t day_bytes = 0) : half_day_bytes_(static_cast<double>(day_bytes) / 2) {}

  // Created when it is first asked for; then the one longest unasked for is forgotten if there are too many.
  Host& At(const std::string& host);
  Uplink& uplink() { return uplink_; }
  // Sets the operator's limit on what this host sends to others, in bytes per second; 0 means none.
  void SetAllowed(double allowed) { allowed_ = allowed; }
  double allowed() const { return allowed_; }
  void Learn(const std::string& host, double rate);
  // Returns the best rate to any other host than this; 0: none is known.
  double BestBeside(const std::string& host) const;
  // New, or probed once without a rate, or with one well below the best: a plan would avoid the path, so it is probed a
  // second time, for the host of a trainer that joins is busy.
  bool IsDoubtful(const std::string& host, TimePoint now);
  // Slow paths are looked at again after pauses from kAgainMin to kAgainMax, so that a recovered one shows. The others
  // after kAgainMax: a plan uses them, so operations show what they carry.
  bool IsDue(const std::string& host, TimePoint now);

  // Returns how many bytes may be sent to it now.
  std::uint64_t Allowance(const std::string& host, TimePoint now);
  void Spend(const std::string& host, std::uint64_t bytes, TimePoint now);
  // Likewise, of those that warm paths.
  std::uint64_t WarmAllowance(const std::string& host, TimePoint now);
  void SpendWarming(const std::string& host, std::uint64_t bytes, TimePoint now);

  bool IsFree(Slot slot, PeerId self) const;
  // Takes the slot if it is free. Returns whether this peer holds it. Give releases only the peer's own slot.
  bool Take(Slot slot, PeerId self);
  // The same for kIsProbed, first come, first served: a peer that does not get it queues until it gets it or gives it.
  bool TakeInTurn(PeerId self);
  void Give(Slot slot, PeerId self);

  void OnWork(TimePoint now) { worked_at_ = now; }
  bool IsQuiet(TimePoint now) const { return !worked_at_ || now - *worked_at_ >= kQuiet; }

 private:
  static constexpr double kSlowShare = 0.8;
  static constexpr Duration kQuiet = std::chrono::milliseconds(150);

  // No rate is known, or one well below the best.
  bool IsSlow(const Host& host) const;
  double WarmBytesMax() const { return half_day_bytes_ == 0 ? kUnlimitedWarmBytes : half_day_bytes_ / 2; }
  // Returns the host, with what has run off since the last call taken from what was spent.
  Host& Refilled(const std::string& host, TimePoint now);

  double half_day_bytes_;
  std::map<std::string, Host> hosts_;
  double best_rate_ = 0;  // of all that are remembered, when one was learnt last
  std::uint64_t uses_ = 0;
  Uplink uplink_;
  double allowed_ = 0;
  std::deque<PeerId> line_;  // for kIsProbed
  std::map<Slot, PeerId> taken_;
  std::optional<TimePoint> worked_at_;
};

// Whether a rate still rises, in windows of at least 150 ms and 1.5 round trips.
class Growth {
 public:
  // `bytes`: of the tick that ends now; those of the first call after a Break do not count.
  void Add(TimePoint now, double bytes, Duration round_trip);
  void Break() { *this = {}; }
  // Windows since the first without one that was over a tenth faster than all before it.
  int flat() const { return flat_; }
  // The fastest of them, in bytes per second, but for growth of less than a tenth; 0: none.
  double best() const { return best_; }

 private:
  BusyWindow window_;
  double best_ = 0;
  int flat_ = 0;
};

// Numbered as control::Probe::Step.
enum class ProbeStep : std::uint8_t { kAsk, kGrant, kRelease, kStop };
struct ProbeMessage {
  PeerId to;
  ProbeStep step = ProbeStep::kAsk;
  friend bool operator==(const ProbeMessage&, const ProbeMessage&) = default;
};

// Whom a peer lets probe it: one at a time, first come, first served, and nobody while its host has work.
class ProbeGrants {
 public:
  ProbeGrants(PeerId self, std::shared_ptr<ProbeBook> book) : self_(self), book_(std::move(book)) {}
  ~ProbeGrants() { book_->Give(ProbeBook::Slot::kIsProbed, self_); }
  ProbeGrants(const ProbeGrants&) = delete;
  ProbeGrants& operator=(const ProbeGrants&) = delete;

  // What there is to say is appended to `out`.
  using Out = std::vector<ProbeMessage>;
  void OnAsk(PeerId from, TimePoint now, Out& out);
  void OnRelease(PeerId from, TimePoint now, Out& out);
  void Forget(PeerId other);
  void Tick(TimePoint now, Out& out);

 private:
  void Drop();
  void GrantNext(TimePoint now, Out& out);

  const PeerId self_;
  const std::shared_ptr<ProbeBook> book_;
  std::deque<PeerId> waiting_;
  std::optional<PeerId> holder_;
  TimePoint held_until_{};
  bool may_probe_ = true;  // the last answer to the holder
};

class Prober {
 public:
  using Step = ProbeStep;
  using Message = ProbeMessage;
  // A turn that is over.
  struct Ended {
    std::set<PeerId> others;  // none: no turn has ended
    std::uint64_t bytes = 0;
    Duration lasted{};
    bool settled = false;
  };

  Prober(PeerId self, const std::shared_ptr<ProbeBook>& book) : self_(self), book_(book), grants_(self, book) {}
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
  // One sample of each pair that has traffic. A turn settles, so that nothing more is sent and it ends with the next
  // tick, when the rate of its pairs together rises no more for two windows; or for one where a path alone is nearly as
  // fast as the best other, so that a plan has no cause to avoid it.
  void OnSamples(std::span<const PathSample> samples, TimePoint now);

  // `may_send`: whether probes are allowed now.
  Ended Tick(TimePoint now, bool may_send);
  // Those whose rate is not known, each once a minute: what operations show of them has to do.
  std::set<PeerId> TakeOverdue(TimePoint now);

 private:
  // What is left of a probe, which may take several turns.
  struct Budget {
    std::uint64_t bytes = 0;
    Duration time = std::chrono::seconds(3);
  };
  struct Turn {
    std::set<PeerId> all;  // with those that have gone since
    std::set<PeerId> others;
    std::set<PeerId> stopped{};  // those whose hosts have work
    std::uint64_t bytes = 0;     // sent
    Duration lasted{};
    bool drains = false;  // the budget's bytes were used up a tick ago
    bool settled = false;
    Growth growth{};
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

  void OnGrant(PeerId from, TimePoint now);
  void OnStop(PeerId from);
  void Say(PeerId to, Step step) { messages_.push_back({to, step}); }
  void Ask(PeerId other);
  bool HasSettled() const;
  // Returns whether the turn is over.
  bool Spend(Duration time);
  // REQUIRES: a turn.
  Budget& budget();
  std::uint64_t BytesOf(const std::set<PeerId>& others) const;
  void BeginTurn(const std::set<PeerId>& others);
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

  const PeerId self_;
  const std::shared_ptr<ProbeBook> book_;
  ProbeGrants grants_;
  std::map<PeerId, Target> targets_;
  std::set<PeerId> used_;
  Turn turn_;                    // nobody's, if no path is probed
  bool together_ = false;        // probing several at once, or collecting grants for it
  std::optional<Budget> joint_;  // of the current probe of several
  std::set<PeerId> kept_;        // grants collected so far
  TimePoint kept_until_{};       // when those expire
  bool might_send_ = false;      // at the last tick
  Duration paused_{};            // how long sending has not been allowed
  TimePoint last_tick_{};
  std::vector<Message> messages_;
};

}  // namespace ringway::flow
