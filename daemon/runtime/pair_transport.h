// The connections of one pair: its control link and its lanes, under the pair's flow control (daemon/flow/pair_flow.h),
// which decides what this carries out.
//
// Threads: one (data thread). Lifetime: the sinks of its connections outlive it; they hear nothing of what it closes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/flow/pair_flow.h"
#include "daemon/net/control_link.h"
#include "daemon/net/lane.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/lane_traffic.h"

namespace ringway::daemon {

// The status of the links that carry this peer's data to and from another.
struct PairStatus {
  PeerId other;
  std::uint32_t lanes_up = 0;
  std::uint32_t lanes_used = 0;   // that are given segments; the others are up for later (lane_scaler.h)
  std::uint64_t retransmits = 0;  // by the kernel, on the lanes that are up
  Duration round_trip{};          // the shortest that one of them saw; 0: not known
  double rate_limit = 0;          // that the pair is paced to, bytes per second; 0: none
};

class PairTransport {
 public:
  // Returns what takes the lane's connection when it has ended, for later pairs of the same daemons; empty: the lane is
  // closed instead.
  using RetireTo = std::function<net::Lane::Keep(LaneId)>;

  // `host`: outlives this.
  PairTransport(flow::HostFlow* host, flow::PathKey path, RetireTo retire_to)
      : other_(path.other), retire_to_(std::move(retire_to)), flow_(host, path) {}

  // ---- links. What they take the place of is closed.
  void TakeControl(std::shared_ptr<net::ControlLink> link, bool within_host);
  const std::shared_ptr<net::ControlLink>& control() const { return control_; }
  void DropControl() { control_ = nullptr; }
  // Takes a lane of a pair with `first` first lanes; lanes of a pair with another number are closed.
  void TakeLane(const std::shared_ptr<net::Lane>& lane, std::size_t first);
  // It has closed, here or there.
  void DropLane(LaneId id);
  // Returns whether it was up.
  bool CloseLane(LaneId id);
  // Everything, at once; what the control link has queued is written, if there is room for it.
  void Close();
  // Likewise, but the lanes' connections are kept where the other side keeps them, too.
  void Retire();
  // Lanes that have a connection.
  std::size_t connections() const;

  // ---- flow
  // `give(lane)` gives it its next segment: the bytes with its header, 0 if there is none for it.
  template <typename Give>
  flow::PairFlow::Pumped Pump(std::size_t& bytes_left, TimePoint now, const Give& give) {
    const auto pumped = flow_.Pump(*this, bytes_left, now, [&](std::size_t i) {
      const std::size_t bytes = give(*lanes_[i]);
      looks_[i].moved = looks_[i].moved || bytes > 0;
      bytes_sent_ += bytes;
      return bytes;
    });
    for (const std::size_t i : flow_.TakeRestarts(now)) Renew(i);
    return pumped;
  }
  // A look at the lanes, if they are worth one; what is to be renewed has been.
  flow::PairFlow::Verdict Sample(bool waits, TimePoint now);
  std::optional<std::size_t> TakeLanesWanted(TimePoint now) { return flow_.TakeLanesWanted(now); }
  // After the host's flow control has decided.
  void Keep();
  // `send(lane)` sends an empty frame behind a lane's last segment. Returns whether there is to be another tick.
  template <typename Send>
  bool FollowTails(const Send& send) {
    flow::LaneSet& tails = flow_.lanes();
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      net::Lane* const lane = lanes_[i].get();
      if (lane == nullptr) tails.OnClosed(i);
      if (lane != nullptr && lane->idle() && tails.TakeTailTurn(i) && tails.OnTailLooked(i, lane->traffic())) {
        looks_[i].moved = true;
        send(*lane);
      }
    }
    return tails.tail_pending();
  }
  PairStatus status();
  // With headers and resent segments.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // By the kernel, on the lanes that are up.
  std::uint64_t resent_bytes();

  // ---- for PairFlow::Pump
  std::size_t size() const { return lanes_.size(); }
  LaneState state(std::size_t i) const;

 private:
  // At a lane's counters, which cost a system call. A lane for every size that is idle and was given nothing since then
  // has the same ones; of a small one it matters whether the other side is using it.
  struct LastLook {
    LaneTraffic traffic;
    bool moved = true;

    bool MayDiffer(const LaneState& state) const {
      return moved || traffic.sending || !state.idle || !state.every_size;
    }
  };
  std::vector<LaneState> States() const;
  // Zero where a lane is down.
  std::vector<LaneTraffic> Traffic();
  // Renews a lane for every size; no-op unless it is up.
  void Renew(std::size_t i);
  void CloseLanes();
  void CloseControl();
  void RetireLane(std::shared_ptr<net::Lane>& lane);
  void ForgetLanes();

  PeerId other_;
  RetireTo retire_to_;
  std::shared_ptr<net::ControlLink> control_;
  std::vector<std::shared_ptr<net::Lane>> lanes_;  // null where one is down
  std::vector<LastLook> looks_;                    // by lane
  std::size_t first_lanes_ = 0;                    // of those
  std::uint64_t bytes_sent_ = 0;
  flow::PairFlow flow_;
};

}  // namespace ringway::daemon
