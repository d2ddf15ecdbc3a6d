#include <algorithm>

#include "proto/check.h"
#include "proto/frame_codec.h"
#include "tests/sim/cluster_impl.h"

namespace ringway::sim {
namespace {

constexpr std::uint32_t kDaemonSide = 0;
constexpr std::uint32_t kMasterSide = 1;

PeerId AddresseeOf(const control::FromMaster& message) {
  if (message.has_candidates()) return PeerId(message.candidates().peer());
  if (message.has_forget()) return PeerId(message.forget().peer());
  if (message.has_pending()) return PeerId(message.pending().peer());
  if (message.has_view()) return PeerId(message.view().peer());
  if (message.has_abort()) return PeerId(message.abort().peer());
  if (message.has_evicted()) return PeerId(message.evicted().peer());
  if (message.has_revoke_prepared()) return PeerId(message.revoke_prepared().peer());
  return {};
}

}  // namespace

// ---------------------------------------------------------------------------------------------- the master

void Cluster::StartMaster() {
  CoordinatorOptions options = options_.master;
  options.journaled = true;
  options.term = ++master_.term;
  options.instance = master_.term;
  master_.writing = false;
  master_.coordinator = std::make_unique<Coordinator>(options);
  std::vector<record::Group> groups;
  for (const auto& [name, group] : master_.journal) groups.push_back(group);
  master_.coordinator->Recover(groups, events_.now());
  Trace("master", "starts, term " + std::to_string(master_.term));
}

void Cluster::KillMaster(bool when_recorded) {
  if (!MasterAlive()) return;
  if (when_recorded) {
    master_.dies_when_recorded = true;
    return;
  }
  Trace("master", "is killed");
  master_.dies_when_recorded = false;
  master_.coordinator.reset();
  for (const auto& [number, connection] : std::exchange(master_.connections, {})) {
    network_.Close(*connection, kMasterSide);
  }
}

void Cluster::SetDiskFull(bool full) {
  master_.disk_full = full;
  if (MasterAlive()) DrainMaster();
}

void Cluster::Evict(std::uint32_t node) {
  control::EvictRequest request;
  request.set_group(GroupOf(node));
  request.set_peer(ToString(IdOf(node)));
  const Status done = master_.coordinator->Evict(request, events_.now()).status();
  RINGWAY_CHECK(done.ok());
  DrainMaster();
}

void Cluster::HearAbort(std::uint32_t node, Epoch epoch) {
  nodes_[node]->peer->OnAbort(epoch, events_.now());
  Drain(node);
}

bool Cluster::IsMember(std::uint32_t node) const {
  if (!MasterAlive()) return false;
  const auto group = master_.coordinator->groups().find(GroupOf(node));
  if (group == master_.coordinator->groups().end()) return false;
  const auto& members = group->second->current().members();
  return std::any_of(members.begin(), members.end(),
                     [&](const control::PeerInfo& info) { return PeerId(info.peer_id()) == IdOf(node); });
}

void Cluster::MasterHears(Coordinator::Connection from, const control::ToMaster& message) {
  if (tracing() && !message.has_heartbeat()) {
    Trace("master", "hears on " + std::to_string(from) + ": " + message.ShortDebugString());
  }
  master_.coordinator->OnMessage(from, message, events_.now());
  DrainMaster();
}

void Cluster::MasterLoses(Coordinator::Connection connection) {
  if (master_.connections.erase(connection) == 0) return;
  master_.coordinator->OnDisconnect(connection, Contact::kClosed, events_.now());
  DrainMaster();
}

void Cluster::WriteDown(const std::vector<record::Group>& groups) {
  for (const record::Group& group : groups) {
    if (group.members().empty()) {
      master_.journal.erase(group.name());
    } else {
      master_.journal[group.name()] = group;
    }
  }
}

bool Cluster::Record() {
  if (master_.coordinator->NeedsRecord() && master_.disk_full) master_.coordinator->OnRecordFailed();
  while (master_.coordinator->NeedsRecord() && !master_.disk_full && !master_.writing) {
    const std::vector<record::Group> groups = master_.coordinator->BeginRecord();
    if (options_.record_delay > Duration()) {
      master_.writing = true;
      // A write of a master that is dead by then is refused by its successor's term.
      events_.After(options_.record_delay, [this, groups, term = master_.term] {
        if (master_.term != term) return;
        WriteDown(groups);
        if (!MasterAlive()) return;
        master_.writing = false;
        master_.coordinator->OnRecorded(events_.now());
        DrainMaster();
      });
      return true;
    }
    const bool dies = master_.dies_when_recorded;
    if (dies && random_() % 2 == 0) {
      KillMaster();
      return false;
    }
    WriteDown(groups);
    if (dies) {
      KillMaster();
      return false;
    }
    master_.coordinator->OnRecorded(events_.now());
  }
  return true;
}

void Cluster::DrainMaster() {
  SendOfMaster();  // may go out before, and does
  if (Record()) SendOfMaster();
}

void Cluster::SendOfMaster() {
  if (master_.coordinator->contradictions() > 0) checker_.Fail("the master saw two outcomes of one operation");
  for (const Coordinator::Action& action : master_.coordinator->TakeActions()) {
    const auto found = master_.connections.find(action.connection);
    if (found == master_.connections.end()) continue;
    Connection& connection = *found->second;
    if (action.message) {
      const bool flips = network_.Flips();
      if (flips) ExpectRefusal(*action.message);
      network_.Send(connection, kMasterSide,
                    [this, host = connection.hosts[kDaemonSide], message = *action.message, flips] {
                      if (flips) return LoseMaster(host);
                      FromMaster(host, message);
                    });
    }
    if (!action.close) continue;
    network_.Close(connection, kMasterSide);
    master_.connections.erase(found);
  }
}

// ---------------------------------------------------------------------------------------------- a daemon's connection

void Cluster::TryConnect(Host host) {
  Daemon& daemon = *daemons_[host];
  if (daemon.master != nullptr || !daemon.alive) return;
  if (daemon.stopped || !MasterAlive() || !network_.Hears(host, kMaster) || !network_.Hears(kMaster, host)) {
    return events_.After(std::chrono::milliseconds(200), [this, host] { TryConnect(host); });
  }
  const Coordinator::Connection number = master_.next_connection++;
  Connection& connection = network_.Open(host, kMaster);
  master_.connections[number] = &connection;
  connection.on_closed[kMasterSide] = [this, number] { MasterLoses(number); };
  connection.on_closed[kDaemonSide] = [this, host] { LoseMaster(host); };
  daemon.master = &connection;
  daemon.heard = events_.now();
  control::ToMaster hello;
  hello.mutable_hello()->set_version_min(kProtocolVersionMin);
  hello.mutable_hello()->set_version_max(kProtocolVersionMax);
  hello.mutable_hello()->set_name(daemon.name);
  hello.mutable_hello()->set_site(daemon.site);
  hello.mutable_hello()->set_site_uplink(options_.site_uplink);
  if (daemon.inbound != Inbound::kBlockedAndSaid) hello.mutable_hello()->set_address(AddressOf(host));
  hello.mutable_hello()->set_instance(daemon.instance);
  ToMaster(host, hello);
}

void Cluster::ToMaster(Host host, const control::ToMaster& message) {
  Daemon& daemon = *daemons_[host];
  if (daemon.master == nullptr || (!daemon.up && !message.has_hello())) return;  // lost
  Connection* connection = daemon.master;
  const bool flips = network_.Flips();
  if (flips) ExpectRefusal(message);
  network_.Send(*connection, kDaemonSide, [this, connection, message, flips] {
    for (const auto& [number, one] : master_.connections) {
      if (one != connection) continue;
      if (!flips) return MasterHears(number, message);
      network_.Close(*connection, kMasterSide);
      return MasterLoses(number);
    }
  });
}

void Cluster::BreakMasterLink(Host host, Break how) {
  Daemon& daemon = *daemons_[host];
  if (daemon.master == nullptr || !daemon.alive || daemon.stopped) return;
  Trace(daemon.name, "loses the master, kind " + std::to_string(static_cast<int>(how)));
  if (how == Break::kReset) return network_.Reset(*daemon.master);
  if (how == Break::kHalfOpen) network_.Vanish(*daemon.master, kDaemonSide);
  LoseMaster(host);
}

void Cluster::LoseMaster(Host host) {
  Daemon& daemon = *daemons_[host];
  if (daemon.master == nullptr) return;
  if (daemon.master->open[kDaemonSide]) network_.Close(*daemon.master, kDaemonSide);
  daemon.master = nullptr;
  daemon.up = false;
  events_.After(Duration(50'000 + static_cast<std::int64_t>(random_() % 500'000)), [this, host] { TryConnect(host); });
}

void Cluster::TickMasterLink(Host host) {
  Daemon& daemon = *daemons_[host];
  if (daemon.master == nullptr) return;
  const Duration heartbeat = std::chrono::milliseconds(options_.master.heartbeat_ms);
  // After a gap in this loop the silence is its own.
  const bool gap = daemon.next_heartbeat != TimePoint() && events_.now() - daemon.next_heartbeat > heartbeat;
  if (gap) daemon.heard = events_.now();
  if (events_.now() - daemon.heard > std::chrono::milliseconds(options_.master.detect_ms)) return LoseMaster(host);
  if (events_.now() < daemon.next_heartbeat) return;
  daemon.next_heartbeat = events_.now() + heartbeat;
  control::ToMaster message;
  message.mutable_heartbeat();
  ToMaster(host, message);
}

void Cluster::FromMaster(Host host, const control::FromMaster& message) {
  Daemon& daemon = *daemons_[host];
  daemon.heard = events_.now();
  if (message.has_heartbeat()) return;
  if (tracing()) Trace(daemon.name, "hears from the master: " + message.ShortDebugString());
  if (message.has_refusal()) return LoseMaster(host);
  if (message.has_hello_reply()) return OnMasterUp(host);
  if (message.has_join_accepted()) return OnJoinAccepted(host, message.join_accepted());
  if (message.has_join_refused()) {
    const auto joining = joining_.find(message.join_refused().request_id());
    if (joining != joining_.end()) End(joining->second, static_cast<Code>(message.join_refused().code()));
    return;
  }
  const PeerId addressee = AddresseeOf(message);
  const std::optional<std::uint32_t> node = NodeOf(addressee);
  if (node && !nodes_[*node]->ended) {
    const bool unknown = message.has_evicted() && message.evicted().unknown();
    return unknown && !nodes_[*node]->joined ? RejoinAsNew(*node) : Route(*node, message);
  }
  if (message.has_evicted()) return;
  control::ToMaster withdraw;
  withdraw.mutable_withdraw()->set_peer(addressee.value);
  ToMaster(host, withdraw);
}

void Cluster::OnMasterUp(Host host) {
  Daemon& daemon = *daemons_[host];
  daemon.up = true;
  SendRoster(host);
  const std::vector<std::uint32_t> nodes = daemon.nodes;
  for (const std::uint32_t index : nodes) {
    Node& node = *nodes_[index];
    if (node.ended) continue;
    if (!node.peer) {
      SendJoin(index);
    } else {
      node.peer->OnMasterBack(events_.now());
      Drain(index);
    }
  }
}

// A peer that the master accepted while the connection broke is not on it, and so withdrawn.
void Cluster::SendRoster(Host host) {
  control::ToMaster message;
  message.mutable_roster();
  for (const std::uint32_t index : daemons_[host]->nodes) {
    const Node& node = *nodes_[index];
    if (node.peer && !node.ended) message.mutable_roster()->add_peers(node.id.value);
  }
  ToMaster(host, message);
}

void Cluster::SayRate(std::uint32_t from, std::uint32_t to, std::uint64_t bytes_per_second) {
  control::ToMaster message;
  message.mutable_measured()->set_peer(IdOf(from).value);
  message.mutable_measured()->set_other(IdOf(to).value);
  message.mutable_measured()->set_bytes_per_second(bytes_per_second);
  message.mutable_measured()->set_round_trip_us(100'000);
  ToMaster(HostOf(from), message);
}

// Asked again, under a new number, on every new connection until it is answered.
void Cluster::SendJoin(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (!daemons_[node.host]->up) return;
  std::erase_if(joining_, [index](const auto& entry) { return entry.second == index; });
  joining_[next_request_] = index;
  control::ToMaster message;
  control::JoinRequest& join = *message.mutable_join();
  join.set_request_id(next_request_++);
  join.set_group(node.order.group);
  join.set_name(node.name);
  join.set_wait_world(node.order.wait_world);
  join.set_min_world(node.order.min_world);
  join.set_fail_on_peer_loss(node.order.fail_on_peer_loss);
  join.set_hung_ms(static_cast<std::uint32_t>(node.order.hung.count() / 1000));
  ToMaster(node.host, message);
}

agreement::PeerOptions Cluster::OptionsOf(std::uint32_t node) {
  const Host host = nodes_[node]->host;
  return {.retained_bytes_max = options_.retained_bytes_max,
          .slice_bytes = options_.slice_bytes,
          .memory = std::make_shared<MemoryShare>(std::make_shared<MemoryBudget>(options_.memory_max)),
          .stuck_after = options_.stuck_after,
          .probes = daemons_[host]->probes,
          .home = {.daemon = daemons_[host]->name,
                   .address = AddressOf(host),
                   .is_reachable = daemons_[host]->inbound != Inbound::kBlockedAndSaid},
          .takes_state = nodes_[node]->order.takes_state,
          .board = daemons_[host]->board,
          .wake = [this, node] { WorkLater(node); }};
}

void Cluster::OnJoinAccepted(Host host, const control::JoinAccepted& accepted) {
  const auto joining = joining_.find(accepted.request_id());
  if (joining == joining_.end()) {
    control::ToMaster withdraw;
    withdraw.mutable_withdraw()->set_peer(accepted.peer());
    return ToMaster(host, withdraw);
  }
  Node& node = *nodes_[joining->second];
  node.id = PeerId(accepted.peer());
  node_of_[node.id] = joining->second;
  node.peer = std::make_unique<agreement::Peer>(node.id, accepted.group(), OptionsOf(joining->second));
  joining_.erase(joining);
}

// The master does not know this peer any more, and it never had a view: the trainer only waits.
void Cluster::RejoinAsNew(std::uint32_t index) {
  Node& node = *nodes_[index];
  Trace(NameOf(index), "joins as new");
  CloseAllLinks(index, false);
  node_of_.erase(node.id);
  node.id = PeerId();
  node.peer.reset();
  node.takes_state = false;
  node.corrupted = false;
  SendJoin(index);
}

void Cluster::Route(std::uint32_t index, const control::FromMaster& message) {
  agreement::Peer& peer = *nodes_[index]->peer;
  const TimePoint now = events_.now();
  if (message.has_candidates()) {
    peer.OnCandidates(message.candidates(), now);
  } else if (message.has_forget()) {
    peer.OnForget(message.forget(), now);
  } else if (message.has_pending()) {
    peer.OnPending(message.pending());
  } else if (message.has_view()) {
    peer.OnView(message.view(), now);
  } else if (message.has_abort()) {
    peer.OnAbort(Epoch(message.abort().epoch()), now);
  } else if (message.has_revoke_prepared()) {
    peer.OnRevokePrepared(Epoch(message.revoke_prepared().epoch()));
  } else if (message.has_evicted()) {
    peer.OnEvicted(static_cast<Code>(message.evicted().code()), message.evicted().text());
  }
  Drain(index);
}

}  // namespace ringway::sim
