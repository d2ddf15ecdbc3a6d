// The master without I/O: daemons, their peers and the groups they form. Pure: events and the time go in, messages come
// out.
//
// A connection is a number chosen by the server. A daemon is identified by the random instance number of its process
// and keeps its peers over a reconnect. Every id in a message is checked: a daemon speaks for its own peers only;
// anything else is ignored and counted.
//
// Healthy operations do not pass here: only changes of groups do.
//
// With a journal (`journaled`) a change of a group's views is journaled before its peers hear of it:
//
//   views change --> messages to the group's peers are held back, and the group changes no further
//                --> NeedsRecord(): the shell writes BeginRecord(), then calls OnRecorded() --> they are released
//
// Writing may take its time: a group that has to change meanwhile, as when a newcomer goes away, is in the next record,
// and its messages stay held back until that is written.
//
// A restarted master starts with a higher term and Recover(). Ids never repeat, because each term has its own range.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/coordination/coordinator_options.h"
#include "master/coordination/group.h"
#include "master/coordination/timeline.h"
#include "master/coordination/unrecorded.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

class Coordinator final : public GroupSink {
 public:
  using Connection = std::uint64_t;
  // A peer's names, for logs.
  struct PeerLabel {
    std::string group, name, address;
  };
  struct Action {
    Connection connection = 0;
    std::optional<control::FromMaster> message;
    bool close = false;  // after the message
  };
  struct Daemon {
    std::uint64_t instance = 0;
    std::string name, site, address, release;
    std::uint64_t site_uplink = 0;
    std::optional<Connection> connection;
    TimePoint heard{};
    TimePoint gone_since{};
    std::set<PeerId> peers;
    bool draining = false;                          // it says that it takes no trainers
    std::uint64_t memory_used = 0, memory_max = 0;  // as it says; 0: not known
  };

  // REQUIRES: options.term >= 1.
  explicit Coordinator(const CoordinatorOptions& options);
  // Restores the groups from the journal. To be called first; peers then have a grace period to reconnect.
  void Recover(const std::vector<record::Group>& groups, TimePoint now);

  void OnMessage(Connection connection, const control::ToMaster& message, TimePoint now);
  // `how`: kClosed if the other side closed the connection, otherwise kSilent.
  void OnDisconnect(Connection connection, Contact how, TimePoint now);
  // Timeouts. To be called at least every 20 ms.
  void Tick(TimePoint now);

  // Returns the peer, which HasDropped then says of. kInvalidArgument if there is no such group or peer.
  Result<PeerId> Evict(const control::EvictRequest& request, TimePoint now);
  // The peer is gone, and no change of its group is unrecorded.
  bool HasDropped(const std::string& group, PeerId peer) const {
    return !homes_.contains(peer) && !unrecorded_.Contains(group);
  }
  // Errors: ConnectionOf's.
  Status Drain(const control::DrainRequest& request);

  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }

  // Peers dropped since the last call; the newest FormerPeers::kMax of them.
  std::vector<FormerPeer> TakeDropped() { return former_.TakeNew(); }

  bool NeedsRecord() const { return !unrecorded_.empty(); }
  // Returns the groups that changed, whole; one without members is deleted. One record is written at a time.
  std::vector<record::Group> BeginRecord();
  // What BeginRecord returned last is written.
  void OnRecorded(TimePoint now);
  // Writing the journal failed and will be retried; pending peers get the reason.
  void OnRecordFailed();

  // Status reads these.
  const CoordinatorOptions& options() const { return options_; }
  const std::map<DaemonId, Daemon>& daemons() const { return daemons_; }
  // The connected daemon of this name. kInvalidArgument if there is none, kDaemonUnreachable if it has no connection.
  Result<Connection> ConnectionOf(const std::string& daemon) const;
  // Null before its hello and after its end.
  const Daemon* DaemonAt(Connection connection) const;
  // Empty for an unknown or dropped peer.
  PeerLabel LabelOf(PeerId peer) const;
  const FormerPeers& former_peers() const { return former_; }
  const Timeline& timeline() const { return timeline_; }
  // What all groups have sent between sites since this process began.
  const TrafficBill& traffic() const { return bill_; }
  // Adds an event of the master or an operator: the time is that of the newest event here.
  void Note(Event event) { timeline_.Add(now_, std::move(event)); }
  // The time of the newest event.
  TimePoint now() const { return now_; }
  const std::map<std::string, std::unique_ptr<Group>>& groups() const { return groups_; }
  // Null if there is none of this name.
  const Group* FindGroup(const std::string& name) const;
  std::uint64_t ignored_messages() const { return ignored_; }
  std::uint64_t contradictions() const { return contradictions_; }

 private:
  Epoch NextEpoch() override;
  HostRates& rates() override { return rates_; }
  TrafficBill& bill() override { return bill_; }
  void Send(PeerId peer, control::FromMaster message) override;
  void Retire(FormerPeer former) override;
  void CountContradiction() override { ++contradictions_; }
  void OnPlanned(const Group& group) override { timeline_.OnPlanned(group.name(), group.slow_peer(), now_); }
  void Changed(const Group& group) override;
  bool MayChange(const Group& group) const override { return !unrecorded_.Contains(group.name()); }
  bool FailsToRecord() const override { return record_fails_; }

  void OnHello(Connection connection, const control::DaemonHello& hello, TimePoint now);
  // What a daemon says of itself.
  void TakeState(const control::DaemonHeartbeat& heartbeat, Daemon& daemon);
  // The daemon was replaced by another process.
  void DropPeersOf(DaemonId id, TimePoint now);
  void OnRoster(DaemonId id, const control::Roster& roster, TimePoint now);
  void OnJoin(DaemonId id, const control::JoinRequest& request, TimePoint now);
  Status CheckJoin(const Daemon& daemon, const control::JoinRequest& request) const;
  void OnPeerWord(DaemonId id, const control::ToMaster& message, TimePoint now);
  void Refuse(Connection connection, Code code, std::string text);
  // REQUIRES: the daemon is connected.
  void NotifyEvicted(const Daemon& daemon, PeerId peer);
  void SendTo(Connection connection, control::FromMaster message) {
    actions_.push_back({connection, std::move(message), false});
  }
  // The group of a peer that belongs to this daemon, or null.
  Group* GroupOf(DaemonId id, PeerId peer);
  void DropEmptyGroups();

  const CoordinatorOptions options_;
  std::uint32_t counter_ = 0;  // of epochs
  std::uint64_t next_daemon_;
  std::uint64_t next_peer_;
  TimePoint now_{};
  Timeline timeline_;
  std::uint64_t ignored_ = 0;
  std::uint64_t contradictions_ = 0;
  HostRates rates_;
  TrafficBill bill_;
  std::map<DaemonId, Daemon> daemons_;
  std::map<Connection, DaemonId> connections_;
  std::map<std::string, std::unique_ptr<Group>> groups_;
  struct PeerHome {
    DaemonId daemon;
    std::string group;
  };
  std::map<PeerId, PeerHome> homes_;
  FormerPeers former_;
  std::vector<Action> actions_;
  UnrecordedGroups unrecorded_;
  bool record_fails_ = false;  // the last attempt failed
};

}  // namespace ringway
