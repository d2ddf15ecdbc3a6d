// A host's measurements of its paths to other hosts, and its probing budget, for all peers and groups of the daemon,
// also later ones. Pure; one a daemon, shared by the Probers (prober.h) of its peers.
//
// Peers of one host share its paths, so one of them probes for all, and a peer that joins anew gets what was
// measured before. A host is the address that its connections come from, so hosts behind one address translator count
// as one.
//
//   one at a time    of this host's peers probes others, and one of them is probed: two would measure each other
//   not beside work  none while any peer of this host has an operation in flight, or had one just now
//   bytes            half of --probe-bytes-a-day at once, and as much more in the course of a day, to each host
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class ProbeBook {
 public:
  static constexpr Duration kBetween = std::chrono::seconds(15);
  static constexpr Duration kAgainMin = std::chrono::minutes(30);
  static constexpr Duration kAgainMax = std::chrono::hours(8);
  static constexpr std::size_t kHostsMax = 4096;

  // Another host.
  struct Host {
    int probes = 0;            // first ones, up to two
    bool rerouted = false;     // since the last probe
    std::uint64_t serial = 0;  // of the last probe: peers that know an older one have something to learn

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
    double spent = 0;  // bytes; runs off
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
  // Never probed, or once without a rate, or with one well below the best: a plan would avoid the path, so it is probed
  // a second time, for the host of a trainer that joins is busy.
  bool IsDoubtful(const std::string& host);
  // Slow paths are looked at again after pauses from kAgainMin to kAgainMax, so that a recovered one shows. The others
  // after kAgainMax: a plan uses them, so operations show what they carry.
  bool IsDue(const std::string& host, TimePoint now);

  // Returns how many bytes may be sent to it now.
  std::uint64_t Allowance(const std::string& host, TimePoint now);
  void Spend(const std::string& host, std::uint64_t bytes, TimePoint now);

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

}  // namespace ringway::flow
