// A whole cluster in one process on simulated time: the real coordinator, real peers and real executors; the network,
// the kills and the trainers come from one seed.
//
// Each node is one daemon with one peer and one trainer. Links deliver in order, different links in any order. A frame
// takes two events, header and payload, so that aborts meet half-read frames. Everything replays exactly from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/peer.h"
#include "master/coordinator.h"

namespace ringway::sim {

struct Outcome {
  Code code = Code::kOk;
  std::string text;
  Epoch epoch;
  std::vector<PeerId> contributors;
  std::uint32_t retries = 0;
  bool update_waits = false;
  std::vector<std::byte> result;
  Descriptor descriptor;
};

struct ClusterOptions {
  std::uint64_t seed = 1;
  std::uint32_t lanes = 2;
  bool fail_on_peer_loss = false;
  std::uint32_t min_world = 1;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  // A daemon whose trainer joins with this wait_world. Gives the node's index.
  std::uint32_t AddNode(std::uint32_t wait_world, const std::string& site = "");
  // Nobody can open a connection to this node.
  void MakeUnreachable(std::uint32_t node);
  void Kill(std::uint32_t node);
  void Leave(std::uint32_t node);
  void CutLane(std::uint32_t a, std::uint32_t b);
  // The pair hears nothing of each other any more; both still reach the master.
  void CutPair(std::uint32_t a, std::uint32_t b);
  // The node neither receives nor sends nor ticks until Thaw.
  void Stop(std::uint32_t node);

  // Submits operation number `index` of the node's trainer; the input is a pure function of (peer, seq, element).
  void Submit(std::uint32_t node, const Descriptor& descriptor, std::uint32_t channel = 0);
  void Cancel(std::uint32_t node, OpName op);

  // Runs until `done` holds or nothing can happen before `limit` simulated time has passed. Gives whether it holds.
  bool RunUntil(const std::function<bool()>& done, Duration limit = std::chrono::seconds(60));
  // Exactly `events` events.
  void RunEvents(std::uint64_t events);
  std::uint64_t events() const { return events_; }

  bool Joined(std::uint32_t node) const;
  bool Ended(std::uint32_t node) const;
  Code EndedCode(std::uint32_t node) const;
  std::string PendingText(std::uint32_t node) const;
  PeerId IdOf(std::uint32_t node) const;
  std::uint32_t WorldOf(std::uint32_t node) const;
  core::PeerStatus StatusOf(std::uint32_t node) const;
  const std::map<OpName, Outcome>& OutcomesOf(std::uint32_t node) const;
  std::uint32_t Submitted(std::uint32_t node) const;
  bool AllDone(const std::vector<std::uint32_t>& nodes) const;
  Coordinator& coordinator() { return *coordinator_; }

  // What every element of the result must be; checks agreement, exactness and untouched inputs of `nodes`.
  void CheckAgreement(const std::vector<std::uint32_t>& nodes) const;

 private:
  struct Operation;
  struct Node;
  struct Event {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(when, order) > std::tie(other.when, other.order); }
  };
  using LinkKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // from, to, lane (0: control)

  void At(TimePoint when, std::function<void()> run);
  void After(Duration delay, std::function<void()> run);
  // In order behind what this link already carries.
  void OnLink(std::uint32_t from, std::uint32_t to, std::uint32_t lane, std::function<void()> run);
  Duration Jitter();
  bool Step();
  void DrainMaster();
  void FromMaster(std::uint32_t node, const control::FromMaster& message);
  void ToMaster(std::uint32_t node, const control::ToMaster& message);
  void Drain(std::uint32_t node);
  void Act(std::uint32_t node, core::Action action);
  void Dial(std::uint32_t from, const core::Dial& dial);
  void Pump(std::uint32_t node);
  void SendFrame(std::uint32_t from, std::uint32_t to, std::uint32_t lane, core::Outbound&& out);
  void CloseLinks(std::uint32_t a, std::uint32_t b, bool lanes_only);
  void TickAll();
  std::uint32_t NodeOf(PeerId peer) const;

  ClusterOptions options_;
  std::mt19937_64 random_;
  TimePoint now_{};
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
  std::priority_queue<Event> queue_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<LinkKey, TimePoint> busy_until_;
  std::map<LinkKey, std::uint64_t> generation_;  // a closed link's frames are dropped
  std::set<LinkKey> up_;
  std::set<LinkKey> sending_;  // lanes with a frame on the way
  std::set<std::pair<std::uint32_t, std::uint32_t>> silent_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kPayloadBytesMax);  // frames are copied out of it at once
};

}  // namespace ringway::sim
