#include "tests/sim/cluster.h"

#include <algorithm>
#include <cstring>

#include "daemon/buffers/trainer_buffers.h"
#include "daemon/transfer/early_frames.h"
#include "proto/check.h"
#include "tests/sim/cluster_impl.h"
#include "tests/sim/oracle.h"

namespace ringway::sim {
namespace {

constexpr std::byte kReused{0xEE};
constexpr std::uint32_t kChannelsMax = 4;  // whose sequence numbers are compared

Duration TickOf(const CoordinatorOptions& master) {
  return std::min<Duration>(std::chrono::milliseconds(master.heartbeat_ms) / 2, std::chrono::milliseconds(100));
}

std::string TextOf(const LogFields& fields) {
  std::string text;
  for (const LogField& field : fields) text.append(" ").append(field.key).append("=").append(field.value);
  return text;
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      random_(options.seed),
      network_(events_, random_, options.network),
      checker_(std::max(options.master.small_bytes_max, options.master.retained_bytes_max), options.judges) {
  RecordRun();
  StartMaster();
  events_.After({}, [this] { TickAll(); });
}

Cluster::~Cluster() = default;

bool Cluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = events_.now() + limit;
  while (!done()) {
    if (!failure().empty() || events_.now() > end || !events_.Step()) return false;
  }
  return failure().empty();
}

void Cluster::RunEvents(std::uint64_t events) {
  for (std::uint64_t i = 0; i < events && events_.Step(); ++i) {
  }
}

void Cluster::TickAll() {
  if (MasterAlive()) {
    master_.coordinator->Tick(events_.now());
    DrainMaster();
  }
  for (Host host = 0; host < daemons_.size(); ++host) {
    Daemon& daemon = *daemons_[host];
    if (!daemon.alive || daemon.stopped) continue;
    TickMasterLink(host);
    const auto ticks = [&](std::uint32_t node) { return nodes_[node]->peer && !nodes_[node]->ended; };
    for (const std::uint32_t node : daemon.nodes) {
      if (ticks(node)) nodes_[node]->peer->NoteWork(events_.now());
    }
    for (const std::uint32_t node : daemon.nodes) {
      if (!ticks(node)) continue;
      nodes_[node]->peer->Tick(events_.now());
      Drain(node);
      if (!nodes_[node]->ended) CheckMemory(node);
    }
  }
  events_.After(TickOf(options_.master), [this] { TickAll(); });
}

// Bounds what came too early from one sender: the eager window, a segment that was begun within it, and on each channel
// the next small operation.
void Cluster::CheckMemory(std::uint32_t node) {
  constexpr std::uint64_t kChannels = 4;
  constexpr std::uint64_t kSmallOverhead = 64 * transfer::EarlyRoom::kOverheadBytes;
  const CoordinatorOptions& plan = options_.master;
  const std::uint64_t from_one = plan.eager_bytes_max + plan.segment_bytes_max + transfer::EarlyRoom::kOverheadBytes +
                                 kChannels * (2 * plan.small_bytes_max + kSmallOverhead);
  const agreement::PeerStatus status = nodes_[node]->peer->GetStatus();
  if (status.held_bytes <= from_one * nodes_.size()) return;
  checker_.Fail(NameOf(node) + ": holds " + std::to_string(status.held_bytes) + " bytes that came too early");
}

// ---------------------------------------------------------------------------------------------- processes

Host Cluster::AddDaemon(const std::string& site, Inbound inbound) {
  const auto host = static_cast<Host>(daemons_.size());
  daemons_.push_back(std::make_unique<Daemon>());
  Daemon& daemon = *daemons_.back();
  daemon.name = "d" + std::to_string(host);
  daemon.site = site;
  daemon.inbound = inbound;
  daemon.instance = host + 1;
  TryConnect(host);
  return host;
}

std::uint32_t Cluster::Join(Host host, const JoinOrder& order) {
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>());
  Node& node = *nodes_.back();
  node.host = host;
  node.order = order;
  node.name = "p" + std::to_string(index);
  daemons_[host]->nodes.push_back(index);
  SendJoin(index);
  return index;
}

std::uint32_t Cluster::AddNode(std::uint32_t wait_world, const std::string& site, Inbound inbound) {
  const Host host = AddDaemon(site, inbound);
  return Join(host, {.group = "g",
                     .wait_world = wait_world,
                     .min_world = options_.min_world,
                     .fail_on_peer_loss = options_.fail_on_peer_loss,
                     .hung = options_.hung});
}

void Cluster::WhenRunning(Host host, EventQueue::Run run) {
  Daemon& daemon = *daemons_[host];
  if (!daemon.alive) return;
  if (daemon.stopped) return daemon.deferred.push_back(std::move(run));
  run();
}

void Cluster::KillDaemon(Host host, bool silently) {
  Daemon& daemon = *daemons_[host];
  if (!daemon.alive) return;
  Trace(daemon.name, silently ? "loses its power" : "is killed");
  daemon.alive = false;
  daemon.powered = !silently;
  daemon.deferred.clear();
  for (const std::uint32_t node : daemon.nodes) {
    CloseAllLinks(node, silently);
    if (nodes_[node]->joined && !nodes_[node]->ended) RecordEnd(*nodes_[node], "killed");
  }
  if (daemon.master == nullptr) return;
  if (silently) {
    network_.Vanish(*daemon.master, 0);
  } else {
    network_.Close(*daemon.master, 0);
  }
}

void Cluster::RestartDaemon(Host host) {
  constexpr std::uint64_t kNextProcess = 1000;
  Daemon& daemon = *daemons_[host];
  RINGWAY_CHECK(!daemon.alive);
  Trace(daemon.name, "is started again");
  for (const std::uint32_t node : std::exchange(daemon.nodes, {})) {
    nodes_[node]->ended = true;
    nodes_[node]->ended_code = Code::kDaemonLost;
  }
  daemon.alive = true;
  daemon.powered = true;
  daemon.stopped = false;
  network_.ResumeReading(host);
  daemon.master = nullptr;
  daemon.up = false;
  daemon.instance += kNextProcess;
  daemon.probes = std::make_shared<flow::ProbeBook>();
  daemon.board = std::make_shared<collective::HostBoard>();
  daemon.next_heartbeat = {};
  TryConnect(host);
}

void Cluster::StopDaemon(Host host) {
  Trace(daemons_[host]->name, "is stopped");
  daemons_[host]->stopped = true;
  network_.StopReading(host);
}

void Cluster::ContinueDaemon(Host host) {
  Daemon& daemon = *daemons_[host];
  if (!daemon.stopped) return;
  Trace(daemon.name, "continues");
  daemon.stopped = false;
  network_.ResumeReading(host);
  for (const EventQueue::Run& run : std::exchange(daemon.deferred, {})) WhenRunning(host, run);
}

void Cluster::Unsilence(Host a, Host b) {
  network_.Unsilence(a, b);
  network_.Unsilence(b, a);
}

void Cluster::CutOffMaster() {
  Trace("master", "is cut off");
  for (Host host = 0; host < daemons_.size(); ++host) {
    network_.Silence(host, kMaster);
    network_.Silence(kMaster, host);
  }
}

void Cluster::RejoinMaster() {
  Trace("master", "is no more cut off");
  for (Host host = 0; host < daemons_.size(); ++host) Unsilence(host, kMaster);
}

void Cluster::HealAll() {
  Trace("network", "is whole again");
  const auto silences = network_.silences();
  for (const auto& [from, to] : silences) network_.Unsilence(from, to);
  for (Host host = 0; host < daemons_.size(); ++host) ContinueDaemon(host);
  FlipOneOf(0);
  SetDiskFull(false);
  master_.dies_when_recorded = false;
  if (!MasterAlive()) StartMaster();
}

void Cluster::CutPair(std::uint32_t a, std::uint32_t b) {
  network_.Silence(HostOf(a), HostOf(b));
  network_.Silence(HostOf(b), HostOf(a));
}

void Cluster::MakeUnreachable(std::uint32_t node) { nodes_[node]->unreachable = true; }
void Cluster::RefuseDialsOf(std::uint32_t node) { nodes_[node]->refused = true; }

// ---------------------------------------------------------------------------------------------- actions

void Cluster::Drain(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (!node.peer) return;
  for (bool more = true; more;) {
    std::vector<agreement::Action> actions = node.peer->TakeActions();
    more = !actions.empty();
    for (agreement::Action& action : actions) Act(index, std::move(action));
    if (!node.ended) Pump(index);
  }
  WorkLater(index);
}

// A slice is an event of its own, behind what is due already.
void Cluster::WorkLater(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (node.ended || !node.peer->HasWork() || std::exchange(node.works, true)) return;
  events_.After(Duration(1), [this, index] {
    WhenRunning(nodes_[index]->host, [this, index] {
      nodes_[index]->works = false;
      if (nodes_[index]->ended || !nodes_[index]->peer) return;
      nodes_[index]->peer->Work();
      Drain(index);
    });
  });
}

void Cluster::Act(std::uint32_t index, agreement::Action action) {
  Node& node = *nodes_[index];
  if (auto* to_peer = std::get_if<agreement::ToPeer>(&action)) {
    SendToPeer(index, *to_peer);
  } else if (auto* to_master = std::get_if<agreement::ToMaster>(&action)) {
    if (to_master->message.has_report()) checker_.OnPromise(node.id, Epoch(to_master->message.report().stop()));
    ToMaster(node.host, to_master->message);
  } else if (auto* dial = std::get_if<links::Dial>(&action)) {
    Dial(index, *dial);
  } else if (auto* close = std::get_if<links::CloseLinks>(&action)) {
    CloseLinks(index, *close);
  } else if (auto* complete = std::get_if<agreement::Complete>(&action)) {
    Tell(index, *complete);
  } else if (auto* joined = std::get_if<agreement::Joined>(&action)) {
    node.joined = true;
    node.world = joined->world_size;
    const agreement::PeerStatus status = node.peer->GetStatus();
    for (const control::PeerInfo& info : status.members) node.known.emplace_back(info.peer_id());
    node.known_epoch = status.epoch;
    RecordJoin(node);
    News(index);
  } else if (auto* pending = std::get_if<agreement::StillPending>(&action)) {
    node.pending = pending->text;
  } else if (std::holds_alternative<agreement::StateHeld>(action)) {
    node.takes_state = true;
  } else if (auto* asks = std::get_if<agreement::NewcomerAsks>(&action)) {
    node.askers.erase(asks->newcomer);
    if (asks->asks) node.askers.insert(asks->newcomer);
  } else if (auto* ended = std::get_if<agreement::Ended>(&action)) {
    if (tracing()) Trace(NameOf(index), std::string("ended: ") + ringway::NameOf(ended->code) + " " + ended->text);
    End(index, ended->code);
  } else if (auto* note = std::get_if<agreement::Note>(&action)) {
    const std::string fields = TextOf(note->fields);
    if (tracing()) Trace(NameOf(index), "note " + note->event + fields);
    const bool expected = options_.expects_stuck && note->event == "operation_stuck";
    if (note->severity == agreement::Severity::kError && !expected)
      checker_.Fail(NameOf(index) + ": " + note->event + fields);
    if (note->event == "buffer_modified" && !node.scribbled) checker_.Fail(NameOf(index) + " is accused:" + fields);
    if (note->event != "view_installed") return;
    const agreement::PeerStatus status = node.peer->GetStatus();
    std::vector<PeerId> members;
    for (const control::PeerInfo& info : status.members) members.emplace_back(info.peer_id());
    RecordView(node, status.epoch, members);
    checker_.OnView(node.id, node.order.group, status.epoch, std::move(members));
  }
}

void Cluster::Tell(std::uint32_t index, const agreement::Complete& complete) {
  if (IsMessage(complete.collective)) return ReportMessage(index, complete);
  Node& node = *nodes_[index];
  const auto found = node.operations.find(complete.token);
  if (found == node.operations.end())
    return checker_.Fail(NameOf(index) + ": an operation that is not open was reported");
  const Operation op = found->second;
  node.operations.erase(found);
  if (tracing()) {
    Trace(NameOf(index), "reported " + ToString(complete.op()) + ": " + ringway::NameOf(complete.outcome.code) +
                             " epoch " + ToString(complete.epoch()) + " of " +
                             std::to_string(complete.contributors.size()));
  }
  if (op.name != complete.op())
    checker_.Fail(NameOf(index) + ": operation " + ToString(op.name) + " reported by another name");
  const bool intact = InputIsAsStaged(index, op);
  if (!intact) checker_.Fail(NameOf(index) + ": its input was written to");
  const bool is_in = (complete.outcome.absent >> complete.outcome.rank & 1) == 0;
  if (complete.ok() && is_in && op.staged < op.input->size())
    checker_.Fail(NameOf(index) + ": reported success before its input was there");
  std::vector<std::uint64_t> next;
  for (std::uint32_t channel = 0; op.descriptor.kind == OpKind::kUpdateView && channel < kChannelsMax; ++channel) {
    next.push_back(NextSequence(index, channel));
  }
  Outcome outcome{complete.outcome.code,
                  complete.text,
                  complete.epoch(),
                  complete.contributors,
                  complete.outcome.retries,
                  complete.outcome.update_waits != 0,
                  ResultOf(op, complete),
                  op.descriptor,
                  op.laid.root,
                  std::move(next),
                  op.scribbled,
                  complete.outcome.absent,
                  complete.outcome.weight};
  RecordOutcome(node, op, complete, outcome, intact);
  checker_.OnReported(node.id, op.name, std::move(outcome));
  // The trainer uses its memory again at once: whatever still reads it would spread garbage.
  std::fill(op.input->begin(), op.input->end(), kReused);
  std::fill(op.result->begin(), op.result->end(), kReused);
  if (complete.ok()) node.world = static_cast<std::uint32_t>(complete.contributors.size());
  if (!complete.contributors.empty() && complete.epoch() >= node.known_epoch) {
    node.known = complete.contributors;
    node.known_epoch = complete.epoch();
  }
  News(index);
}

void Cluster::End(std::uint32_t index, Code code) {
  Node& node = *nodes_[index];
  if (std::exchange(node.ended, true)) return;
  node.ended_code = code;
  RecordEnd(node, ringway::NameOf(code));
  if (!node.operations.empty() || !node.messages.empty())
    checker_.Fail(NameOf(index) + ": ended with an operation open");
  CloseAllLinks(index, false);
  News(index);
}

void Cluster::News(std::uint32_t node) {
  if (on_news_) on_news_(node);
}

// ---------------------------------------------------------------------------------------------- what tests ask

std::string Cluster::NameOf(std::uint32_t node) const {
  const Node& one = *nodes_[node];
  return daemons_[one.host]->name + "/" + one.name + "#" + ToString(one.id);
}

std::string Cluster::Describe(std::uint32_t index) const {
  const Node& node = *nodes_[index];
  if (!node.joined) return NameOf(index) + " pending: " + node.pending;
  const agreement::PeerStatus status = node.peer->GetStatus();
  std::string out = NameOf(index) + " epoch " + ToString(status.epoch) + (status.frozen ? " frozen" : "") + " world " +
                    std::to_string(status.members.size());
  for (const auto& [token, op] : node.operations) out += " waits for " + ToString(op.name);
  for (const auto& [token, message] : node.messages) out += " waits for " + ToString(message.key);
  return out;
}

void Cluster::Trace(const std::string& who, const std::string& what) {
  if (!options_.trace) return;
  trace_.push_back(std::to_string(events_.now().time_since_epoch().count()) + " " + who + " " + what);
}

bool Cluster::Alive(Host daemon) const { return daemons_[daemon]->alive; }
bool Cluster::Stopped(Host daemon) const { return daemons_[daemon]->stopped; }
Host Cluster::HostOf(std::uint32_t node) const { return nodes_[node]->host; }
bool Cluster::HasPeer(std::uint32_t node) const { return nodes_[node]->peer != nullptr; }
bool Cluster::Joined(std::uint32_t node) const { return nodes_[node]->joined; }
bool Cluster::Ended(std::uint32_t node) const { return nodes_[node]->ended; }
Code Cluster::EndedCode(std::uint32_t node) const { return nodes_[node]->ended_code; }
std::string Cluster::PendingText(std::uint32_t node) const { return nodes_[node]->pending; }
PeerId Cluster::IdOf(std::uint32_t node) const { return nodes_[node]->id; }
const std::string& Cluster::GroupOf(std::uint32_t node) const { return nodes_[node]->order.group; }
std::uint32_t Cluster::WorldOf(std::uint32_t node) const { return nodes_[node]->world; }
std::uint64_t Cluster::NextSequence(std::uint32_t node, std::uint32_t channel) const {
  return nodes_[node]->peer->NextSequence(ChannelId(channel));
}
agreement::PeerStatus Cluster::StatusOf(std::uint32_t node) const { return nodes_[node]->peer->GetStatus(); }
const std::map<OpName, Outcome>& Cluster::OutcomesOf(std::uint32_t node) const {
  return checker_.OutcomesOf(nodes_[node]->id);
}
void Cluster::ScribbleOnce(std::uint32_t node) { nodes_[node]->scribbles = true; }
bool Cluster::HasScribbled(std::uint32_t node) const { return nodes_[node]->scribbled; }
std::uint32_t Cluster::Submitted(std::uint32_t node) const { return nodes_[node]->submitted; }

bool Cluster::HadALossInAView(const std::string& group) const {
  return std::any_of(checker_.views().begin(), checker_.views().end(), [&](const auto& view) {
    return view.first.first == group && std::any_of(view.second.begin(), view.second.end(), [&](PeerId peer) {
             const auto node = NodeOf(peer);
             return !node || !Here(*node);
           });
  });
}

bool Cluster::AllDone(const std::vector<std::uint32_t>& nodes) const {
  return std::all_of(nodes.begin(), nodes.end(), [&](std::uint32_t node) { return nodes_[node]->operations.empty(); });
}

std::string Cluster::WhyBroken(const std::vector<std::uint32_t>& stayed) const {
  if (!failure().empty()) return failure();
  std::vector<PeerId> peers;
  for (const std::uint32_t node : stayed) {
    if (nodes_[node]->corrupted) return NameOf(node) + " stayed, and a payload failed its checksum";
    peers.push_back(nodes_[node]->id);
  }
  const std::string broken = messages_.WhyBroken(peers);
  return broken.empty() ? checker_.WhyBroken(peers) : broken;
}

}  // namespace ringway::sim
