// A whole cluster in one process on simulated time: the real coordinator, real peers and real executors; network, kills
// and trainers are drawn from one seed, from which a run replays exactly.
//
// A daemon is a process with a connection to the master; a node is one trainer's session with its peer, on a daemon.
// Scripted tests use one node a daemon (AddNode), random worlds several (AddDaemon, Join). A minimal version of the
// shells (data_plane.cc, peer_runtime.cc, master_link.cc, master/shell/server.cc) drives the pure parts.
//
// A frame is two messages, header and payload, so that aborts hit partially read frames.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/agreement/peer.h"
#include "daemon/links/dial_tracker.h"
#include "master/coordination/coordinator.h"
#include "tests/history/history.h"
#include "tests/sim/checker.h"
#include "tests/sim/events.h"
#include "tests/sim/message_checker.h"
#include "tests/sim/network.h"

namespace ringway::sim {

struct ClusterOptions {
  std::uint64_t seed = 1;
  std::uint32_t lanes = 2;
  std::uint32_t lanes_max = 0;                          // for pairs that want more
  std::uint64_t probe_bytes = 0;                        // of each pair that stands
  bool delays_are_known = false;                        // to the planner, from the round trips of links
  std::uint64_t site_uplink = 0;                        // of each site, in bytes per second; 0: not known
  bool fail_on_peer_loss = false;                       // of AddNode
  std::uint32_t min_world = 1;                          // of AddNode
  Duration op_deadline = {};                            // of every operation; 0: none
  Duration hung = {};                                   // of AddNode
  std::uint32_t empty_one_of = 0;                       // one of this many frames is empty; 0: none. REQUIRES: not 1
  std::uint32_t staged_one_of = 0;                      // one of this many operations has a staged input; 0: none
  std::uint32_t staging_fails_one_of = 0;               // at one of this many pieces, and is cancelled; 0: never
  std::uint64_t retained_bytes_max = 64 << 20;          // by a peer, of all operations
  std::uint64_t slice_bytes = 1 << 20;                  // copied or added up by a peer at once
  std::uint64_t memory_max = MemoryBudget::kUnlimited;  // of each peer
  Duration stuck_after = std::chrono::seconds(3);       // for each peer's watchdog
  bool expects_stuck = false;                           // the watchdog may fire; otherwise that is a failure
  CoordinatorOptions master = {};
  Duration record_delay = {};  // until a record of the master is written; 0: within its turn
  NetworkOptions network = {};
  bool trace = false;
  const history::Writer* history = nullptr;  // records submissions and outcomes; outlives the cluster
  bool judges = true;                        // the checker checks the outcomes
};

struct JoinOrder {
  std::string group = "g";
  std::uint32_t wait_world = 1;
  std::uint32_t min_world = 1;
  bool fail_on_peer_loss = false;
  Duration hung = {};  // 0: never
  bool takes_state = false;
};

// One end of a message.
struct MessageOrder {
  bool sends = false;  // else receives
  PeerId other = {};
  std::uint32_t channel = 0;
  std::uint32_t tag = 0;
  DType dtype = DType::kU8;
  std::uint64_t count = 0;
  bool cancels = false;  // of those who submit it: after a while
};

// Says whether other daemons can dial one; if they cannot, it may announce that.
enum class Inbound : std::uint8_t { kOpen, kBlocked, kBlockedAndSaid };

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // ---- processes. A daemon's number is its host.
  Host AddDaemon(const std::string& site = "", Inbound inbound = Inbound::kOpen);
  // Returns the new node's number.
  std::uint32_t Join(Host daemon, const JoinOrder& order);
  // A daemon whose trainer joins group "g" with this wait_world.
  std::uint32_t AddNode(std::uint32_t wait_world, const std::string& site = "", Inbound inbound = Inbound::kOpen);
  bool Alive(Host daemon) const;
  bool Stopped(Host daemon) const;
  Host HostOf(std::uint32_t node) const;

  // ---- faults
  // Its kernel closes its connections; `silently`: nobody does, as in a power failure.
  void KillDaemon(Host daemon, bool silently = false);
  // SIGSTOP: it neither reads nor ticks; messages to it wait.
  void StopDaemon(Host daemon);
  // Starts a killed one again, with the same address and name: another process, without peers.
  void RestartDaemon(Host daemon);
  void ContinueDaemon(Host daemon);
  // Messages from one host to the other wait until the silence ends. kMaster is a host, too.
  void Silence(Host from, Host to) { network_.Silence(from, to); }
  void Unsilence(Host a, Host b);  // both ways
  // Between the master and all present daemons, both ways.
  void CutOffMaster();
  void RejoinMaster();
  void HealAll();
  enum class Break : std::uint8_t { kReset, kClosedByDaemon, kHalfOpen };  // half open: the master does not notice
  void BreakMasterLink(Host daemon, Break how);
  // Its journal stays. `when_recorded`: just before or after its next record, before it sends anything.
  void KillMaster(bool when_recorded = false);
  void StartMaster();
  bool MasterAlive() const { return master_.coordinator != nullptr; }
  // An operator orders it.
  void Evict(std::uint32_t node);
  // A member lies to it about the view.
  void HearAbort(std::uint32_t node, Epoch epoch);
  // While the disk is full, records fail.
  void SetDiskFull(bool full);
  // Breaks only the control link of the two.
  void CutControl(std::uint32_t a, std::uint32_t b);
  // Flips a bit of one in `messages` messages (0: none), or of the next one.
  void FlipOneOf(std::uint32_t messages) { network_.FlipOneOf(messages); }
  void FlipNext() { network_.FlipNext(); }
  void CutLane(std::uint32_t a, std::uint32_t b, LaneId lane = LaneId(0));
  void WantLanes(std::uint32_t index, std::uint32_t other, std::uint32_t lanes);
  std::uint32_t LanesUp(std::uint32_t index, std::uint32_t other) const;
  // Reports a measured rate of the path between two nodes.
  void SayRate(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_second);
  // Its trainer writes once to an output in flight.
  void ScribbleOnce(std::uint32_t node);
  bool HasScribbled(std::uint32_t node) const;
  void Kill(std::uint32_t node) { KillDaemon(HostOf(node)); }
  void Stop(std::uint32_t node) { StopDaemon(HostOf(node)); }
  // Silences the pair for good; both still reach the master.
  void CutPair(std::uint32_t a, std::uint32_t b);
  // No new connection to or from this node succeeds.
  void MakeUnreachable(std::uint32_t node);
  // Its certificate has ended: what it dials is refused, and what others dial to it.
  void RefuseDialsOf(std::uint32_t node);
  void CutAllLinks(std::uint32_t a, std::uint32_t b);

  // ---- trainers
  // Returns false if it was refused. The input is a pure function of (peer, operation, element).
  bool Submit(std::uint32_t node, const Descriptor& descriptor, std::uint32_t channel = 0);
  void Cancel(std::uint32_t node, OpName op);
  // Returns its token; 0: it was refused. What is sent is a pure function of the message.
  std::uint64_t SubmitMessage(std::uint32_t node, const MessageOrder& order);
  void CancelMessage(std::uint32_t node, std::uint64_t token);
  std::size_t OpenMessages(std::uint32_t node) const;
  const MessageChecker& messages() const { return messages_; }
  // Returns whether its trainer takes the other for a member.
  bool Knows(std::uint32_t node, std::uint32_t other) const;
  // Returns whether its trainer has heard whose state it may take, and has not said that it did.
  bool TakesState(std::uint32_t node) const;
  void FinishState(std::uint32_t node);
  // The newcomers that its trainer has heard of, which take its state.
  const std::set<PeerId>& AskersOf(std::uint32_t node) const;
  // Its trainer stops copying inputs.
  void StopStaging(std::uint32_t node);
  // Lets every input arrive from now on (staging_fails_one_of).
  void MendStaging() { staging_fails_ = false; }
  void Leave(std::uint32_t node);
  // The trainer's process dies, with complete inputs or not.
  void AbandonTrainer(std::uint32_t node);
  // Called when a node has joined, got an outcome or ended.
  void SetOnNews(std::function<void(std::uint32_t node)> on_news) { on_news_ = std::move(on_news); }

  // ---- time
  EventQueue& events_queue() { return events_; }
  // Runs until `done` holds, an invariant breaks, or `limit` of simulated time has passed. Returns done().
  bool RunUntil(const std::function<bool()>& done, Duration limit = std::chrono::seconds(60));
  void RunEvents(std::uint64_t events);
  TimePoint now() const { return events_.now(); }
  std::uint64_t events() const { return events_.count(); }

  // ---- queries
  std::uint32_t daemons() const { return static_cast<std::uint32_t>(daemons_.size()); }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(nodes_.size()); }
  bool HasPeer(std::uint32_t node) const;  // the master has accepted it
  bool Joined(std::uint32_t node) const;
  bool Ended(std::uint32_t node) const;
  Code EndedCode(std::uint32_t node) const;
  // Returns whether its daemon lives and its membership has not ended.
  bool Here(std::uint32_t node) const { return Alive(HostOf(node)) && !Ended(node); }
  std::string PendingText(std::uint32_t node) const;
  PeerId IdOf(std::uint32_t node) const;
  const std::string& GroupOf(std::uint32_t node) const;
  std::uint32_t WorldOf(std::uint32_t node) const;
  std::uint64_t NextSequence(std::uint32_t node, std::uint32_t channel) const;
  agreement::PeerStatus StatusOf(std::uint32_t node) const;
  const std::map<OpName, Outcome>& OutcomesOf(std::uint32_t node) const;
  // One line about its state, for failure messages.
  std::string Describe(std::uint32_t node) const;
  std::uint32_t Submitted(std::uint32_t node) const;
  bool AllDone(const std::vector<std::uint32_t>& nodes) const;
  // Returns whether it is a member of its group at the master.
  bool IsMember(std::uint32_t node) const;
  // Returns whether any view of the group contained a peer that is gone.
  bool HadALossInAView(const std::string& group) const;
  // Returns the violation of an invariant so far, or of the promise to `stayed`, of one group; empty if there is none.
  std::string WhyBroken(const std::vector<std::uint32_t>& stayed) const;
  const std::string& failure() const { return checker_.failure(); }
  void Fail(const std::string& what) { checker_.Fail(what); }
  // Ends the history: it holds all outcomes that were reported to `stayed`, members of their groups.
  void RecordOver(const std::vector<std::uint32_t>& stayed);

  void Trace(const std::string& who, const std::string& what);
  const ClusterOptions& options() const { return options_; }
  bool tracing() const { return options_.trace; }
  const std::vector<std::string>& trace() const { return trace_; }

  static constexpr Host kMaster = ~Host{0};

 private:
  struct Operation;
  struct OpenMessage;
  struct Link {  // one node's end of a connection to another
    Connection* connection = nullptr;
    std::uint32_t side = 0;
    std::uint32_t to = 0;                       // node
    bool sending = false;                       // lanes: one frame at a time
    std::optional<agreement::Inbound> inbound;  // between a frame's header and its payload
  };
  struct Node;
  struct Daemon;
  struct Master {
    std::unique_ptr<Coordinator> coordinator;  // null: dead
    std::map<Coordinator::Connection, Connection*> connections;
    Coordinator::Connection next_connection = 1;
    std::uint32_t term = 0;
    std::map<std::string, record::Group> journal;  // on its disk
    bool disk_full = false;
    bool writing = false;
    bool dies_when_recorded = false;
  };
  using LinkId = links::LinkId;

  // ---- cluster.cc
  void TickAll();
  void CheckMemory(std::uint32_t node);
  // Carries out the peer's actions until there are none.
  void Drain(std::uint32_t node);
  void WorkLater(std::uint32_t node);
  void Act(std::uint32_t node, agreement::Action action);
  void Stage(std::uint32_t node, std::uint64_t token);
  bool InputIsAsStaged(std::uint32_t node, const Operation& op) const;
  static std::vector<std::byte> ResultOf(const Operation& op, const agreement::Complete& complete);
  void Tell(std::uint32_t node, const agreement::Complete& complete);
  void ReportMessage(std::uint32_t node, const agreement::Complete& complete);
  void End(std::uint32_t node, Code code);
  void News(std::uint32_t node);
  // Runs it at once, or when the stopped process continues.
  void WhenRunning(Host daemon, EventQueue::Run run);
  std::string NameOf(std::uint32_t node) const;

  // ---- cluster_history.cc
  void RecordRun() const;
  void RecordJoin(const Node& node) const;
  void RecordView(const Node& node, Epoch epoch, const std::vector<PeerId>& members) const;
  void RecordEnd(const Node& node, std::string_view code) const;
  void RecordSubmission(const Node& node, const Operation& op, const agreement::Submission& submission) const;
  void RecordCancel(const Node& node, const OpName& op) const;
  void RecordOutcome(const Node& node, const Operation& op, const agreement::Complete& complete,
                     const Outcome& reported, bool intact) const;
  void RecordMessage(const Node& node, std::string_view event, const OpenMessage& message,
                     const agreement::Complete* complete) const;

  // ---- cluster_master.cc
  void DrainMaster();
  void SendOfMaster();
  // Returns false if the master died meanwhile.
  bool Record();
  void WriteDown(const std::vector<record::Group>& groups);
  void MasterHears(Coordinator::Connection from, const control::ToMaster& message);
  void MasterLoses(Coordinator::Connection connection);
  void TryConnect(Host daemon);
  void LoseMaster(Host daemon);
  void ToMaster(Host daemon, const control::ToMaster& message);
  void FromMaster(Host daemon, const control::FromMaster& message);
  void OnMasterUp(Host daemon);
  void SendRoster(Host daemon);
  void RejoinAsNew(std::uint32_t node);
  agreement::PeerOptions OptionsOf(std::uint32_t node);
  void OnJoinAccepted(Host daemon, const control::JoinAccepted& accepted);
  void SendJoin(std::uint32_t node);
  void Route(std::uint32_t node, const control::FromMaster& message);
  void TickMasterLink(Host daemon);

  // ---- cluster_links.cc
  void Dial(std::uint32_t from, const links::Dial& dial);
  void Offer(std::uint32_t from, std::uint64_t serial, std::uint32_t tries);
  void Accept(std::uint32_t from, std::uint32_t to, std::uint64_t serial);
  // The dial failed because of `failure` if there are no connections.
  void FinishDial(std::uint32_t from, std::uint64_t serial, const std::vector<Connection*>& connections,
                  const Status& failure);
  // Closes the receiver's end of the link, after a broken frame.
  void BreakLink(std::uint32_t node, const LinkId& id);
  // Checks that a receiver detects a flipped bit in it.
  void ExpectRefusal(const google::protobuf::MessageLite& message);
  struct LinkEnd {
    Connection* connection = nullptr;
    std::uint32_t side = 0;
    std::uint32_t to = 0;  // node at the other end
  };
  std::vector<LaneId> LinksOf(const links::Dial& dial) const;
  // `dial`: what opened it.
  void AddLink(std::uint32_t node, const LinkId& id, const links::Dial& dial, const LinkEnd& end);
  void OnLinkClosed(std::uint32_t node, const LinkId& id);
  void CloseLinks(std::uint32_t node, const links::CloseLinks& which);
  void CloseAllLinks(std::uint32_t node, bool silently);
  void SendToPeer(std::uint32_t node, const agreement::ToPeer& message);
  void Pump(std::uint32_t node);
  void SendFrame(std::uint32_t node, const LinkId& id, agreement::Outbound out);
  void OnFrameHeader(std::uint32_t node, const LinkId& id, const SegmentHeader& header);
  void OnFramePayload(std::uint32_t node, const LinkId& id, std::span<const std::byte> payload, bool flipped);
  bool Scribble(std::uint32_t node, std::uint32_t to, const LinkId& id, std::span<const std::byte> payload);
  void OnFrameSent(std::uint32_t node, const LinkId& id, const Connection* connection);
  std::optional<std::uint32_t> NodeOf(PeerId peer) const;

  const ClusterOptions options_;
  bool staging_fails_ = true;
  std::mt19937_64 random_;
  std::uint64_t offers_ = 0;  // of lanes to peers
  EventQueue events_;
  Network network_;
  Checker checker_;
  MessageChecker messages_;
  Master master_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<PeerId, std::uint32_t> node_of_;
  std::map<std::uint64_t, std::uint32_t> joining_;  // nodes by request id
  std::uint64_t next_request_ = 1;
  std::function<void(std::uint32_t)> on_news_;
  std::vector<std::string> trace_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kPayloadBytesMax);  // of one frame at a time
};

}  // namespace ringway::sim
