// Warms paths that the next view may use: dummy bytes at full speed open congestion and receive windows before the
// view's first operation, which would otherwise begin in slow start. Pure.
//
//   Begin --> waits --its time has come, no other path is warmed--> warming --> over: it is warm, or its bytes or time
//               |                                                     |               are used up
//               +-- Stop: a view was installed; Forget --> over <-----+
//
// A path is warm once its connections have carried kBytesMax, of whatever kind, or its rate rose no more while it was
// warmed. Connections that end take what they have carried along, so a path to a daemon that has restarted is cold.
//
// One path at a time: the rate of an uplink that is not known yet is taken to be that of its fastest path, so the first
// one is what the others may use together. Paths to successors on a ring carry the most; all others wait for kLater.
//
// A probe (prober.h) asks the other host first and never runs beside work. This has to, for the members train until the
// newcomer is admitted, and its rates are not used: what else is under way lowers them. Its bytes are bounded by
// kBytesMax a path, and are at most half of those that probes of that host may take in a day (ProbeBook).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "daemon/flow/prober.h"
#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class Warmer {
 public:
  static constexpr std::uint64_t kBytesMax = std::uint64_t{32} << 20;
  static constexpr Duration kTimeMax = std::chrono::seconds(2);  // a path
  static constexpr Duration kLater = std::chrono::milliseconds(700);

  explicit Warmer(std::shared_ptr<ProbeBook> book) : book_(std::move(book)) {}

  // The pair is connected. `host`: the other's; empty: this one. `bytes`: of a probe of it. Paths within a host,
  // nearby ones (kNearby) and those that are not probed are not warmed.
  void Know(PeerId other, const std::string& host, std::uint64_t bytes, Duration round_trip);
  void Forget(PeerId other);
  // After `later` at the earliest, and in the order of the calls. No effect for a path that is not known, waits, is
  // warmed, or is warm by then.
  void Begin(PeerId other, Duration later, TimePoint now);
  void Stop();

  // Returns whether any path is warmed or waits for it.
  bool is_active() const { return warming_ || !waiting_.empty(); }
  // Returns whether any path is warm.
  bool has_warm() const;
  std::optional<PeerId> warming() const { return warming_; }
  // Returns the payload bytes of the next frame to `other`, at most `bytes_max`, and counts them as sent; 0: no more.
  // REQUIRES: `other` is warming().
  std::uint32_t Take(PeerId other, std::uint32_t bytes_max, TimePoint now);
  void OnSamples(std::span<const PathSample> samples, TimePoint now);
  void Tick(TimePoint now);

 private:
  void End(TimePoint now);
  void BeginNext(TimePoint now);

  struct Path {
    std::string host;
    std::uint64_t bytes_max = 0;
    std::uint64_t bytes_left = 0;
    std::uint64_t carried = 0;
    std::uint64_t enough = kBytesMax;  // carried by a warm path
    TimePoint begins_at{};
    TimePoint until{};
    Growth growth{};

    bool is_warm() const { return carried >= enough; }
  };

  const std::shared_ptr<ProbeBook> book_;
  std::map<PeerId, Path> paths_;
  std::deque<PeerId> waiting_;
  std::optional<PeerId> warming_;
};

}  // namespace ringway::flow
