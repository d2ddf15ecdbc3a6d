#include "master/coordination/coordinator.h"

#include <algorithm>

#include "master/coordination/names.h"
#include "proto/frame_codec.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

constexpr std::size_t kDaemonsMax = 1024;  // connected
constexpr std::size_t kPeersPerDaemonMax = 1024;
constexpr std::size_t kPeersMax = 16 * 1024;
// At a hundred joins a second, three centuries of one life; and 18 million lives.
constexpr std::uint64_t kIdsPerTerm = 1'000'000'000'000;
constexpr std::size_t kHeldMax = 64 * 1024;

std::string_view HostOf(std::string_view address) { return address.substr(0, address.rfind(':')); }

// The same name and host, or the same address: one of the two processes is dead. A name alone is not enough, for hosts
// cloned from one image may share it; unless it is proven: then only the name counts, for anybody may give an address.
bool SamePlace(const Coordinator::Daemon& a, const Coordinator::Daemon& b, bool names_proven) {
  if (names_proven) return a.name == b.name;
  return (a.address == b.address && !a.address.empty()) || (a.name == b.name && HostOf(a.address) == HostOf(b.address));
}

// The peer on whose behalf the message is sent.
PeerId SpeakerOf(const control::ToMaster& message) {
  switch (message.kind_case()) {
    case control::ToMaster::kConnected:
      return PeerId(message.connected().peer());
    case control::ToMaster::kMeasured:
      return PeerId(message.measured().peer());
    case control::ToMaster::kDialFailed:
      return PeerId(message.dial_failed().peer());
    case control::ToMaster::kReport:
      return PeerId(message.report().peer());
    case control::ToMaster::kInstalled:
      return PeerId(message.installed().peer());
    case control::ToMaster::kWithdraw:
      return PeerId(message.withdraw().peer());
    case control::ToMaster::kPreparedRevoked:
      return PeerId(message.prepared_revoked().peer());
    default:
      return PeerId();
  }
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options),
      next_daemon_((options.term - 1) * kIdsPerTerm + 1),
      next_peer_((options.term - 1) * kIdsPerTerm + 1) {}

void Coordinator::Recover(const std::vector<record::Group>& groups, TimePoint now) {
  now_ = std::max(now_, now);
  if (RINGWAY_MUTANT(kForgetJournal)) return;
  const TimePoint missed = now + kReturn;
  std::map<std::pair<std::uint64_t, std::string>, DaemonId> ids;  // by instance and name
  for (record::Group record : groups) {
    // Written by a release that did not say so.
    for (record::Member& member : *record.mutable_members()) member.mutable_info()->set_daemon(member.daemon());
    RINGWAY_REACHED(kRecoverGroup);
    groups_[record.name()] = std::make_unique<Group>(record, OptionsOfGroups(options_), *this, missed);
    for (const record::Member& member : record.members()) {
      DaemonId& id = ids[{member.instance(), member.daemon()}];
      if (id == DaemonId()) id = DaemonId(next_daemon_++);
      Daemon& daemon = daemons_[id];
      daemon.instance = member.instance();
      daemon.name = member.daemon();
      daemon.site = member.info().site();
      daemon.site_uplink = member.info().site_uplink();
      daemon.address = member.info().address();
      daemon.gone_since = missed;
      const PeerId peer(member.info().peer_id());
      daemon.peers.insert(peer);
      homes_[peer] = {id, record.name()};
    }
  }
}

Epoch Coordinator::NextEpoch() {
  if (!RINGWAY_MUTANT(kReuseEpoch) || counter_ % 4 != 3) ++counter_;
  return Epoch::Of(RINGWAY_MUTANT(kForgetTerm) ? 1 : options_.term, counter_);
}

// ---------------------------------------------------------------------------------------------- the record

void Coordinator::Changed(const Group& group) {
  if (options_.journaled) unrecorded_.Add(group.name());
}

std::vector<record::Group> Coordinator::BeginRecord() {
  std::vector<record::Group> records;
  for (const std::string& name : unrecorded_.Begin()) {
    const auto group = groups_.find(name);
    record::Group& record = records.emplace_back();
    record.set_name(name);
    if (group == groups_.end()) continue;
    record = group->second->Record();
    for (record::Member& member : *record.mutable_members()) {
      const Daemon& daemon = daemons_.at(homes_.at(PeerId(member.info().peer_id())).daemon);
      member.set_instance(daemon.instance);
      member.set_daemon(daemon.name);
    }
  }
  return records;
}

void Coordinator::OnRecorded(TimePoint now) {
  for (UnrecordedGroups::Held& held : unrecorded_.Finish()) SendTo(held.connection, std::move(held.message));
  const bool failed = std::exchange(record_fails_, false);
  for (const auto& [name, group] : groups_) {
    group->Tick(now);  // changes that had to wait
    if (failed) group->ExplainPendings();
  }
  DropEmptyGroups();
}

void Coordinator::OnRecordFailed() {
  if (std::exchange(record_fails_, true)) return;
  RINGWAY_REACHED(kWaitForJournal);
  for (const auto& [name, group] : groups_) group->ExplainPendings();
}

// ---------------------------------------------------------------------------------------------- daemons

void Coordinator::OnMessage(Connection connection, const control::ToMaster& message, TimePoint now) {
  now_ = now;
  if (message.has_hello()) return OnHello(connection, message.hello(), now);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return Refuse(connection, Code::kProtocol, "say hello first");
  const DaemonId id = found->second;
  Daemon& daemon = daemons_.at(id);
  daemon.heard = now;
  if (message.has_heartbeat()) {
    RINGWAY_REACHED(kTakeDaemonHeartbeat);
    TakeState(message.heartbeat(), daemon);
    for (const control::PeerCounters& counters : message.heartbeat().counters()) {
      if (Group* group = GroupOf(id, PeerId(counters.peer()))) {
        group->OnCounters(counters, now);
      } else {
        ++ignored_;
      }
    }
    control::FromMaster reply;
    reply.mutable_heartbeat();
    return SendTo(connection, std::move(reply));  // changes no group
  }
  if (message.has_roster()) {
    OnRoster(id, message.roster(), now);
  } else if (message.has_join()) {
    OnJoin(id, message.join(), now);
  } else {
    OnPeerWord(id, message, now);
  }
  DropEmptyGroups();
}

void Coordinator::OnHello(Connection connection, const control::DaemonHello& hello, TimePoint now) {
  const Versions theirs{hello.version_min(), hello.version_max()};
  const auto version = AgreeVersion(kProtocolVersions, theirs);
  if (!version) {
    return Refuse(connection, Code::kVersionMismatch,
                  NoCommonVersion("this master", kProtocolVersions, "the daemon", theirs));
  }
  if (connections_.contains(connection)) return Refuse(connection, Code::kProtocol, "a second hello on one connection");
  if (const Status status = CheckHello(hello); !status.ok()) return Refuse(connection, status.code(), status.text());
  DaemonId id;
  for (auto& [known, daemon] : daemons_) {
    if (daemon.instance == hello.instance() && daemon.name == hello.name()) {
      id = known;  // the same process reconnects
    } else if (daemon.name == hello.name() && daemon.connection) {
      return Refuse(connection, Code::kJoinRefused,
                    "a daemon named " + hello.name() + " at " + daemon.address + " is connected: choose another name");
    }
  }
  if (connections_.size() >= kDaemonsMax && (id == DaemonId() || !daemons_.at(id).connection)) {
    return Refuse(connection, Code::kResourceExhausted,
                  "the master has " + std::to_string(kDaemonsMax) + " daemons: start another master");
  }
  if (id == DaemonId()) id = DaemonId(next_daemon_++);
  Daemon& daemon = daemons_[id];
  if (daemon.connection) {
    actions_.push_back({*daemon.connection, std::nullopt, true});
    OnDisconnect(*daemon.connection, Contact::kSilent, now);
  }
  daemon.instance = hello.instance();
  daemon.name = hello.name();
  daemon.site = hello.site();
  daemon.site_uplink = std::min(hello.site_uplink(), PathBook::kBytesPerSecondMax);
  daemon.address = hello.address();
  daemon.release = hello.release();
  daemon.connection = connection;
  daemon.heard = now;
  connections_[connection] = id;
  Note({.kind = "daemon_up", .who = daemon.name, .text = "site " + daemon.site + ", " + daemon.address});
  std::vector<DaemonId> replaced;
  for (const auto& [other, old] : daemons_) {
    if (other != id && !old.connection && SamePlace(old, daemon, options_.names_proven)) replaced.push_back(other);
  }
  for (const DaemonId other : replaced) DropPeersOf(other, now);
  control::FromMaster reply;
  reply.mutable_hello_reply()->set_version(*version);
  reply.mutable_hello_reply()->set_daemon_id(id.value);
  reply.mutable_hello_reply()->set_term(options_.term);
  reply.mutable_hello_reply()->set_heartbeat_ms(options_.heartbeat_ms);
  reply.mutable_hello_reply()->set_detect_ms(options_.detect_ms);
  reply.mutable_hello_reply()->set_instance(options_.instance);
  SendTo(connection, std::move(reply));
}

const Coordinator::Daemon* Coordinator::DaemonAt(Connection connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : &daemons_.at(found->second);
}

Coordinator::PeerLabel Coordinator::LabelOf(PeerId peer) const {
  const auto home = homes_.find(peer);
  if (home == homes_.end()) return {};
  const auto& peers = groups_.at(home->second.group)->peers();
  const auto found = peers.find(peer);
  if (found == peers.end()) return {};
  return {home->second.group, found->second.info.name(), found->second.info.address()};
}

void Coordinator::DropPeersOf(DaemonId id, TimePoint now) {
  const std::set<PeerId> peers = daemons_.at(id).peers;  // a copy: groups may retire some meanwhile
  for (const PeerId peer : peers) {
    if (Group* group = GroupOf(id, peer)) group->OnReplaced(peer, now);
  }
  DropEmptyGroups();
}

// The daemon's peers count as offline until its roster says which of them still exist.
void Coordinator::OnRoster(DaemonId id, const control::Roster& roster, TimePoint now) {
  std::set<PeerId> there;
  for (const std::uint64_t peer : roster.peers()) {
    there.emplace(peer);
    if (there.size() <= kPeersPerDaemonMax && GroupOf(id, PeerId(peer)) == nullptr) {
      NotifyEvicted(daemons_.at(id), PeerId(peer));
    }
  }
  const std::set<PeerId> known = daemons_.at(id).peers;  // a copy: groups may retire some meanwhile
  for (const PeerId peer : known) {
    Group* group = GroupOf(id, peer);
    if (group == nullptr) continue;
    if (!there.contains(peer)) {
      RINGWAY_REACHED(kWithdrawMissing);
      group->OnWithdraw(peer, now);
      continue;
    }
    if (!RINGWAY_MUTANT(kNoResync)) group->Resync(peer);
    group->SetContact(peer, Contact::kOnline, now);
  }
}

Status Coordinator::CheckJoin(const Daemon& daemon, const control::JoinRequest& request) const {
  if (Status status = CheckNames(request); !status.ok()) return status;
  if (!options_.permits.Allows(abi::GroupOfState(request.group()), daemon.name)) {
    return {Code::kJoinRefused, "daemon " + daemon.name + " may not join group " + request.group() +
                                    ": the master's option --allow names others"};
  }
  if (daemon.peers.size() >= kPeersPerDaemonMax || homes_.size() >= kPeersMax) {
    return {Code::kResourceExhausted, "the master takes " + std::to_string(kPeersPerDaemonMax) +
                                          " peers of one daemon and " + std::to_string(kPeersMax) +
                                          " in all: start another daemon or master"};
  }
  if (unrecorded_.held() >= kHeldMax) {
    return {Code::kResourceExhausted, "the master cannot write its journal and takes nobody until it can: see its log"};
  }
  if (next_peer_ > options_.term * kIdsPerTerm) {
    return {Code::kResourceExhausted, "the master has used up the peer ids of this life: restart it"};
  }
  return Status::Ok();
}

void Coordinator::OnJoin(DaemonId id, const control::JoinRequest& request, TimePoint now) {
  Daemon& daemon = daemons_.at(id);
  const auto refuse = [&](const Status& why) {
    RINGWAY_REACHED(kRefuseJoin);
    control::FromMaster reply;
    reply.mutable_join_refused()->set_request_id(request.request_id());
    reply.mutable_join_refused()->set_code(static_cast<std::uint32_t>(why.code()));
    reply.mutable_join_refused()->set_text(why.text());
    SendTo(*daemon.connection, std::move(reply));
  };
  if (const Status status = CheckJoin(daemon, request); !status.ok()) return refuse(status);
  auto group = groups_.find(request.group());
  if (group == groups_.end()) {
    auto formed = std::make_unique<Group>(request.group(), request, OptionsOfGroups(options_), *this);
    group = groups_.emplace(request.group(), std::move(formed)).first;
  }
  if (const Status status = group->second->CheckJoin(request); !status.ok()) return refuse(status);
  RINGWAY_REACHED(kAcceptJoin);
  const PeerId peer(next_peer_++);
  daemon.peers.insert(peer);
  homes_[peer] = {id, request.group()};
  control::FromMaster reply;
  reply.mutable_join_accepted()->set_request_id(request.request_id());
  reply.mutable_join_accepted()->set_group(request.group());
  reply.mutable_join_accepted()->set_peer(peer.value);
  SendTo(*daemon.connection, std::move(reply));
  control::PeerInfo info;
  info.set_peer_id(peer.value);
  info.set_name(request.name());
  info.set_site(daemon.site);
  info.set_site_uplink(daemon.site_uplink);
  info.set_address(daemon.address);
  info.set_daemon(daemon.name);
  timeline_.OnJoin(info, request, now);
  group->second->Add(info, request, now);
}

void Coordinator::OnPeerWord(DaemonId id, const control::ToMaster& message, TimePoint now) {
  const PeerId speaker = SpeakerOf(message);
  Group* group = GroupOf(id, speaker);
  if (group == nullptr) {
    ++ignored_;  // forged, or late: the peer is gone
    if (message.has_report()) NotifyEvicted(daemons_.at(id), speaker);
    return;
  }
  if (message.has_connected()) {
    group->OnConnected(speaker, PeerId(message.connected().other()), Duration(message.connected().round_trip_us()),
                       now);
  } else if (message.has_measured()) {
    RINGWAY_REACHED(kTakeMeasured);
    group->OnMeasured(message.measured(), now);
  } else if (message.has_dial_failed()) {
    group->OnDialFailed(speaker, PeerId(message.dial_failed().other()), message.dial_failed().text());
  } else if (message.has_report()) {
    if (Epoch(message.report().stop()) > Epoch::Of(options_.term, counter_)) {
      // No such view was ever made: one that stops there takes part in none that will be.
      RINGWAY_REACHED(kEvictLiar);
      ++ignored_;
      group->OnEvict(speaker, "a member of its group, or its own daemon, has lied to it about the view", now);
      return DropEmptyGroups();
    }
    timeline_.OnReport(group->name(), LabelOf(speaker).name, message.report(), now);
    group->OnReport(message.report(), now);
  } else if (message.has_installed()) {
    timeline_.OnInstalled(group->name(), Epoch(message.installed().epoch()), now);
    group->OnInstalled(speaker, Epoch(message.installed().epoch()), now);
  } else if (message.has_prepared_revoked()) {
    group->OnPreparedRevoked(speaker, Epoch(message.prepared_revoked().epoch()), now);
  } else if (message.has_withdraw()) {
    RINGWAY_REACHED(kTakeWithdraw);
    group->OnWithdraw(speaker, now);
  }
}

// Notifies the sender of a peer that was dropped while its daemon was disconnected, or that is in no journal. It gets
// the reason only if the peer was its own.
void Coordinator::NotifyEvicted(const Daemon& daemon, PeerId peer) {
  if (RINGWAY_MUTANT(kKeepGhosts)) return;
  RINGWAY_REACHED(kNotifyUnknown);
  const FormerPeer* former = former_.Find(peer);
  const bool is_known = former != nullptr && former->instance == daemon.instance && former->daemon == daemon.name;
  control::FromMaster message;
  message.mutable_evicted()->set_peer(peer.value);
  message.mutable_evicted()->set_code(static_cast<std::uint32_t>(is_known ? former->code : Code::kEvicted));
  message.mutable_evicted()->set_text(is_known ? former->text
                                               : "the master does not know peer " + ToString(peer) +
                                                     " any more: rejoin and take the state of the others");
  message.mutable_evicted()->set_unknown(true);
  SendTo(*daemon.connection, std::move(message));
}

void Coordinator::OnDisconnect(Connection connection, Contact how, TimePoint now) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const DaemonId id = found->second;
  Daemon& daemon = daemons_.at(id);
  connections_.erase(found);
  unrecorded_.Forget(connection);
  daemon.connection.reset();
  daemon.gone_since = now;
  now_ = std::max(now_, now);
  Note({.kind = "daemon_down",
        .who = daemon.name,
        .text = how == Contact::kClosed ? "closed its connection" : "its connection broke, or it is silent"});
  const std::set<PeerId> peers = daemon.peers;  // a copy: groups may retire some meanwhile
  for (const PeerId peer : peers) {
    if (Group* group = GroupOf(id, peer)) group->SetContact(peer, how, now);
  }
  // The process may have reconnected before the end of its old connection was noticed.
  const bool is_replaced = std::any_of(connections_.begin(), connections_.end(), [&](const auto& entry) {
    return SamePlace(daemons_.at(entry.second), daemon, options_.names_proven);
  });
  if (is_replaced) DropPeersOf(id, now);
  DropEmptyGroups();
}

void Coordinator::Tick(TimePoint now) {
  now_ = now;
  const Duration detect = std::chrono::milliseconds(options_.detect_ms);
  std::vector<Connection> silent;
  for (const auto& [id, daemon] : daemons_) {
    if (daemon.connection && now - daemon.heard > detect) silent.push_back(*daemon.connection);
  }
  for (const Connection connection : silent) {
    actions_.push_back({connection, std::nullopt, true});
    OnDisconnect(connection, Contact::kSilent, now - detect);  // it is gone since it was last heard
  }
  for (const auto& [name, group] : groups_) group->Tick(now);
  std::erase_if(daemons_, [&](const auto& entry) {
    const Daemon& daemon = entry.second;
    return !daemon.connection && daemon.peers.empty() && now - daemon.gone_since > detect;
  });
  DropEmptyGroups();
}

void Coordinator::Refuse(Connection connection, Code code, std::string text) {
  ++ignored_;
  control::FromMaster message;
  message.mutable_refusal()->set_code(static_cast<std::uint32_t>(code));
  message.mutable_refusal()->set_text(std::move(text));
  actions_.push_back({connection, std::move(message), true});
}

void Coordinator::Send(PeerId peer, control::FromMaster message) {
  const auto home = homes_.find(peer);
  if (home == homes_.end()) return;
  timeline_.OnMessage(home->second.group, message, now_);
  const Daemon& daemon = daemons_.at(home->second.daemon);
  if (!daemon.connection) return;
  // An ABORT decides nothing, so it may overtake: a member that is not asked would seem silent. Likewise Pending, whose
  // reason may be the journal.
  const bool is_about_journal =
      message.has_pending() && static_cast<Code>(message.pending().code()) == Code::kMasterUnreachable;
  const bool decides = !message.has_abort() && !is_about_journal;
  const bool hold = unrecorded_.Contains(home->second.group) && decides && !RINGWAY_MUTANT(kSendBeforeRecord);
  RINGWAY_REACHED_IF(hold, kHoldUntilRecorded);
  if (hold) return unrecorded_.Hold({home->second.group, *daemon.connection, std::move(message)});
  SendTo(*daemon.connection, std::move(message));
}

void Coordinator::Retire(FormerPeer former) {
  const auto home = homes_.find(former.peer);
  if (home == homes_.end()) return;
  Daemon& daemon = daemons_.at(home->second.daemon);
  daemon.peers.erase(former.peer);
  homes_.erase(home);
  former.daemon = daemon.name;
  former.instance = daemon.instance;
  timeline_.OnDropped(former, now_);
  former_.Add(std::move(former));
}

Group* Coordinator::GroupOf(DaemonId id, PeerId peer) {
  const auto home = homes_.find(peer);
  if (home == homes_.end() || home->second.daemon != id) return nullptr;
  return groups_.at(home->second.group).get();
}

const Group* Coordinator::FindGroup(const std::string& name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() ? nullptr : found->second.get();
}

void Coordinator::DropEmptyGroups() {
  std::erase_if(groups_, [this](const auto& entry) {
    if (entry.second->empty()) timeline_.Forget(entry.first);
    return entry.second->empty();
  });
}

}  // namespace ringway
