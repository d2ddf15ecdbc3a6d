#include "tests/sim/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "proto/check.h"

namespace ringway::sim {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr std::uint32_t kMaster = ~std::uint32_t{0};

// Small integers, so that sums of 64 are exact in f32 whatever their order.
float InputValue(PeerId peer, const OpName& op, std::uint64_t element) {
  const std::uint64_t mix = (peer.value * 31 + op.seq * 7 + op.channel.value * 3 + element) * 0x9E3779B97F4A7C15ull;
  return static_cast<float>(static_cast<std::int64_t>(mix >> 52) - 2048);
}

}  // namespace

struct Cluster::Operation {
  OpName name;
  Descriptor descriptor;
  std::shared_ptr<std::vector<float>> input;
  std::shared_ptr<std::vector<std::byte>> result;
};

struct Cluster::Node {
  std::unique_ptr<core::Peer> peer;
  PeerId id;
  bool alive = true;
  bool stopped = false;
  bool unreachable = false;
  bool joined = false;
  bool ended = false;
  Code ended_code = Code::kOk;
  std::string pending;
  std::vector<std::function<void()>> frozen_events;  // what a stopped process would have read
  std::map<ChannelId, std::uint64_t> next_seq;
  std::map<std::uint64_t, Operation> operations;  // by token
  std::map<OpName, Outcome> outcomes;
  std::uint32_t submitted = 0;
  std::uint32_t world = 0;
};

Cluster::Cluster(const ClusterOptions& options) : options_(options), random_(options.seed) {
  now_ = TimePoint(std::chrono::seconds(1));
  coordinator_ = std::make_unique<Coordinator>(CoordinatorOptions{});
  At(now_, [this] { TickAll(); });
}

Cluster::~Cluster() = default;

Duration Cluster::Jitter() { return Duration(50 + static_cast<std::int64_t>(random_() % 950)); }

void Cluster::At(TimePoint when, std::function<void()> run) { queue_.push({when, order_++, std::move(run)}); }
void Cluster::After(Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }

void Cluster::OnLink(std::uint32_t from, std::uint32_t to, std::uint32_t lane, std::function<void()> run) {
  TimePoint& busy = busy_until_[{from, to, lane}];
  busy = std::max(busy, now_ + Jitter());
  At(busy, std::move(run));
}

bool Cluster::Step() {
  if (queue_.empty()) return false;
  const Event event = queue_.top();
  queue_.pop();
  now_ = std::max(now_, event.when);
  ++events_;
  event.run();
  return true;
}

bool Cluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = now_ + limit;
  while (!done()) {
    if (now_ > end || !Step()) return false;
  }
  return true;
}

void Cluster::RunEvents(std::uint64_t events) {
  for (std::uint64_t i = 0; i < events && Step(); ++i) {
  }
}

void Cluster::TickAll() {
  coordinator_->Tick(now_);
  DrainMaster();
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    if (!node.alive || node.stopped) continue;
    control::ToMaster heartbeat;
    heartbeat.mutable_heartbeat();
    ToMaster(i, heartbeat);
    if (!node.peer || node.ended) continue;
    node.peer->Tick(now_);
    Drain(i);
  }
  After(kTick, [this] { TickAll(); });
}

// ---------------------------------------------------------------------------------------------- nodes

std::uint32_t Cluster::AddNode(std::uint32_t wait_world, const std::string& site) {
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>());
  control::ToMaster hello;
  hello.mutable_hello()->set_version_min(1);
  hello.mutable_hello()->set_version_max(1);
  hello.mutable_hello()->set_name("d" + std::to_string(index));
  hello.mutable_hello()->set_site(site);
  hello.mutable_hello()->set_address("127.0.0.1:" + std::to_string(1000 + index));
  hello.mutable_hello()->set_instance(index + 1);
  ToMaster(index, hello);
  control::ToMaster join;
  join.mutable_join()->set_request_id(1);
  join.mutable_join()->set_group("g");
  join.mutable_join()->set_name("p" + std::to_string(index));
  join.mutable_join()->set_wait_world(wait_world);
  join.mutable_join()->set_min_world(options_.min_world);
  join.mutable_join()->set_fail_on_peer_loss(options_.fail_on_peer_loss);
  ToMaster(index, join);
  return index;
}

void Cluster::MakeUnreachable(std::uint32_t node) { nodes_[node]->unreachable = true; }

void Cluster::Kill(std::uint32_t node) {
  nodes_[node]->alive = false;
  for (std::uint32_t other = 0; other < nodes_.size(); ++other) {
    if (other != node) CloseLinks(node, other, false);
  }
  OnLink(node, kMaster, 0, [this, node] {
    coordinator_->OnDisconnect(node, now_);
    DrainMaster();
  });
}

void Cluster::Leave(std::uint32_t node) {
  nodes_[node]->peer->Leave(now_ + std::chrono::seconds(10), now_);
  Drain(node);
}

void Cluster::Stop(std::uint32_t node) { nodes_[node]->stopped = true; }

void Cluster::CutLane(std::uint32_t a, std::uint32_t b) {
  for (const auto& side : {std::pair(a, b), std::pair(b, a)}) {
    const std::uint32_t x = side.first;
    const std::uint32_t y = side.second;
    if (up_.erase({x, y, 1}) == 0) continue;
    ++generation_[{x, y, 1}];
    sending_.erase({x, y, 1});
    OnLink(y, x, 1, [this, x, y] {
      if (!nodes_[x]->alive || nodes_[x]->ended) return;
      nodes_[x]->peer->OnLinkDown({IdOf(y), false, LaneId(0)}, "cut", now_);
      Drain(x);
    });
  }
}

void Cluster::CutPair(std::uint32_t a, std::uint32_t b) { silent_.insert({std::min(a, b), std::max(a, b)}); }

void Cluster::Submit(std::uint32_t index, const Descriptor& descriptor, std::uint32_t channel) {
  Node& node = *nodes_[index];
  RINGWAY_CHECK(node.joined);
  if (node.ended) return;
  Operation op;
  const ChannelId id(channel);
  // The daemon numbers a newcomer's operations from where the members stand; inputs use the name it will get.
  op.name = {id, node.peer->NextSequence(id)};
  op.descriptor = descriptor;
  op.input = std::make_shared<std::vector<float>>(descriptor.count);
  op.result = std::make_shared<std::vector<std::byte>>(descriptor.count * SizeOf(descriptor.dtype));
  for (std::uint64_t i = 0; i < descriptor.count; ++i) (*op.input)[i] = InputValue(node.id, op.name, i);
  core::Submission submission;
  submission.token = ++node.submitted;
  submission.channel = id;
  submission.descriptor = descriptor;
  submission.input = reinterpret_cast<const std::byte*>(op.input->data());
  submission.result = op.result->data();
  submission.keep = std::make_shared<std::pair<decltype(op.input), decltype(op.result)>>(op.input, op.result);
  submission.input_bytes_ready = op.result->size();
  node.operations[submission.token] = op;
  const Status status = node.peer->Submit(std::move(submission), now_);
  RINGWAY_CHECK(status.ok());
  Drain(index);
}

void Cluster::Cancel(std::uint32_t index, OpName name) {
  Node& node = *nodes_[index];
  for (const auto& [token, op] : node.operations) {
    if (op.name == name) node.peer->Cancel(token, now_);
  }
  Drain(index);
}

// ---------------------------------------------------------------------------------------------- master

void Cluster::ToMaster(std::uint32_t node, const control::ToMaster& message) {
  OnLink(node, kMaster, 0, [this, node, message] {
    if (!nodes_[node]->alive) return;
    coordinator_->OnMessage(node, message, now_);
    DrainMaster();
  });
}

void Cluster::DrainMaster() {
  for (auto& action : coordinator_->TakeActions()) {
    if (action.close || !action.message) continue;
    const auto node = static_cast<std::uint32_t>(action.connection);
    OnLink(kMaster, node, 0, [this, node, message = *action.message] { FromMaster(node, message); });
  }
}

void Cluster::FromMaster(std::uint32_t index, const control::FromMaster& message) {
  Node& node = *nodes_[index];
  if (!node.alive || node.ended) return;
  if (node.stopped) {
    node.frozen_events.emplace_back([this, index, message] { FromMaster(index, message); });
    return;
  }
  if (message.has_join_accepted()) {
    node.id = PeerId(message.join_accepted().peer());
    node.peer = std::make_unique<core::Peer>(node.id, "g");
  } else if (message.has_candidates()) {
    node.peer->OnCandidates(message.candidates(), now_);
  } else if (message.has_forget()) {
    node.peer->OnForget(message.forget(), now_);
  } else if (message.has_pending()) {
    node.peer->OnPending(message.pending());
  } else if (message.has_view()) {
    node.peer->OnView(message.view(), now_);
  } else if (message.has_abort()) {
    node.peer->OnAbort(Epoch(message.abort().epoch()), now_);
  } else if (message.has_evicted()) {
    node.peer->OnEvicted(static_cast<Code>(message.evicted().code()), message.evicted().text());
  } else if (message.has_join_refused()) {
    node.ended = true;
    node.ended_code = static_cast<Code>(message.join_refused().code());
  }
  Drain(index);
}

// ---------------------------------------------------------------------------------------------- actions

void Cluster::Drain(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (!node.peer) return;
  for (bool more = true; more;) {
    std::vector<core::Action> actions = node.peer->TakeActions();
    more = !actions.empty();
    for (core::Action& action : actions) Act(index, std::move(action));
    Pump(index);
  }
}

void Cluster::Act(std::uint32_t index, core::Action action) {
  Node& node = *nodes_[index];
  if (auto* to_peer = std::get_if<core::ToPeer>(&action)) {
    const std::uint32_t to = NodeOf(to_peer->to);
    const LinkKey key{index, to, 0};
    if (!up_.contains(key)) return;
    const std::uint64_t generation = generation_[key];
    OnLink(index, to, 0, [this, index, to, key, generation, message = to_peer->message]() mutable {
      std::function<void()> deliver = [this, index, to, key, generation, message] {
        Node& receiver = *nodes_[to];
        if (!receiver.alive || receiver.ended || generation_[key] != generation) return;
        if (silent_.contains({std::min(index, to), std::max(index, to)})) return;
        receiver.peer->OnPeerMessage(IdOf(index), message, now_);
        Drain(to);
      };
      if (nodes_[to]->stopped) return nodes_[to]->frozen_events.push_back(deliver);
      deliver();
    });
  } else if (auto* to_master = std::get_if<core::ToMaster>(&action)) {
    ToMaster(index, to_master->message);
  } else if (auto* dial = std::get_if<core::Dial>(&action)) {
    Dial(index, *dial);
  } else if (auto* close = std::get_if<core::CloseLinks>(&action)) {
    CloseLinks(index, NodeOf(close->other), close->lanes_only);
  } else if (auto* complete = std::get_if<core::Complete>(&action)) {
    const Operation& op = node.operations.at(complete->token);
    EXPECT_EQ(op.name, complete->op);
    EXPECT_FALSE(node.outcomes.contains(op.name)) << "an operation was told twice";
    for (std::uint64_t i = 0; i < op.descriptor.count; ++i) {
      RINGWAY_CHECK((*op.input)[i] == InputValue(node.id, op.name, i));  // nobody wrote the trainer's data
    }
    node.outcomes[op.name] = {complete->code,    complete->text,         complete->epoch, complete->contributors,
                              complete->retries, complete->update_waits, *op.result,      op.descriptor};
    // The trainer uses its memory again at once: whatever still reads it would spread garbage.
    std::fill(op.input->begin(), op.input->end(), -7777.0f);
    std::fill(op.result->begin(), op.result->end(), std::byte{0xEE});
    if (complete->code == Code::kOk) node.world = static_cast<std::uint32_t>(complete->contributors.size());
  } else if (auto* joined = std::get_if<core::Joined>(&action)) {
    node.joined = true;
    node.world = joined->world_size;
  } else if (auto* pending = std::get_if<core::StillPending>(&action)) {
    node.pending = pending->text;
  } else if (auto* ended = std::get_if<core::Ended>(&action)) {
    node.ended = true;
    node.ended_code = ended->code;
    for (std::uint32_t other = 0; other < nodes_.size(); ++other) {
      if (other != index) CloseLinks(index, other, false);
    }
  }
}

void Cluster::Dial(std::uint32_t from, const core::Dial& dial) {
  const auto to = static_cast<std::uint32_t>(std::stoul(dial.address.substr(dial.address.find(':') + 1)) - 1000);
  After(Jitter(), [this, from, to, dial] {
    Node& dialler = *nodes_[from];
    Node& acceptor = *nodes_[to];
    if (!dialler.alive || dialler.ended) return;
    Status admitted = Status::Ok();
    const bool reachable = acceptor.alive && !acceptor.ended && acceptor.peer && !acceptor.unreachable &&
                           !acceptor.stopped && !silent_.contains({std::min(from, to), std::max(from, to)});
    if (!reachable) {
      admitted = {Code::kPeerUnreachable, "connection to " + dial.address + " refused"};
    } else {
      admitted = acceptor.peer->Admit({dialler.id, dial.control, LaneId(0)}, options_.lanes);
    }
    if (!admitted.ok()) {
      dialler.peer->OnDialFailed(dial.other, dial.control, admitted.text(), now_);
      return Drain(from);
    }
    for (std::uint32_t lane = 0; lane < (dial.control ? 1 : options_.lanes); ++lane) {
      const std::uint32_t link = dial.control ? 0 : lane + 1;
      for (const LinkKey& key : {LinkKey{from, to, link}, LinkKey{to, from, link}}) {
        up_.insert(key);
        ++generation_[key];
        sending_.erase(key);
      }
      acceptor.peer->OnLinkUp({dialler.id, dial.control, LaneId(lane)}, options_.lanes, now_);
      dialler.peer->OnLinkUp({acceptor.id, dial.control, LaneId(lane)}, options_.lanes, now_);
    }
    Drain(to);
    Drain(from);
  });
}

void Cluster::CloseLinks(std::uint32_t a, std::uint32_t b, bool lanes_only) {
  for (std::uint32_t link = lanes_only ? 1 : 0; link <= options_.lanes; ++link) {
    const bool was_up = up_.erase({b, a, link}) > 0;
    up_.erase({a, b, link});
    ++generation_[{b, a, link}];  // a hears nothing more; what a sent before still arrives
    sending_.erase({a, b, link});
    sending_.erase({b, a, link});
    if (!was_up) continue;
    const std::uint64_t generation = generation_[{a, b, link}];
    OnLink(a, b, link, [this, a, b, link, generation] {
      Node& other = *nodes_[b];
      if (!other.alive || other.ended || !other.peer || generation_[{a, b, link}] != generation) return;
      ++generation_[{a, b, link}];
      std::function<void()> down = [this, a, b, link] {
        nodes_[b]->peer->OnLinkDown({IdOf(a), link == 0, LaneId(link == 0 ? 0 : link - 1)}, "closed", now_);
        Drain(b);
      };
      if (other.stopped) return other.frozen_events.push_back(down);
      down();
    });
  }
}

// ---------------------------------------------------------------------------------------------- frames

void Cluster::Pump(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (!node.alive || node.stopped || node.ended) return;
  for (const PeerId other : node.peer->PeersWithWork()) {
    const std::uint32_t to = NodeOf(other);
    for (std::uint32_t lane = 1; lane <= options_.lanes; ++lane) {
      const LinkKey key{index, to, lane};
      if (!up_.contains(key) || sending_.contains(key)) continue;
      core::Outbound out;
      if (!node.peer->NextSegment(other, kPayloadBytesMax, scratch_, out)) continue;
      SendFrame(index, to, lane, std::move(out));
    }
  }
}

void Cluster::SendFrame(std::uint32_t from, std::uint32_t to, std::uint32_t lane, core::Outbound&& out) {
  const LinkKey key{from, to, lane};
  const std::uint64_t generation = generation_[key];
  sending_.insert(key);
  auto payload = std::make_shared<std::vector<std::byte>>(out.payload.begin(), out.payload.end());
  auto inbound = std::make_shared<std::optional<core::Inbound>>();
  const core::LinkId link{nodes_[from]->id, false, LaneId(lane - 1)};
  const auto usable = [this, to, key, generation] {
    return nodes_[to]->alive && !nodes_[to]->ended && !nodes_[to]->stopped && generation_[key] == generation;
  };
  OnLink(from, to, lane, [this, to, link, header = out.header, inbound, usable] {
    if (!usable()) return;
    const auto decoded = DecodeSegmentHeader(header);
    RINGWAY_CHECK(decoded.ok());
    auto target = nodes_[to]->peer->OnHeader(link, decoded.value());
    EXPECT_TRUE(target.ok()) << target.status().text();
    if (target.ok()) *inbound = target.value();
    Drain(to);
  });
  OnLink(from, to, lane, [this, from, to, key, generation, link, payload, inbound, usable] {
    if (usable() && inbound->has_value() && (*inbound)->kind != core::Inbound::Kind::kDiscard) {
      const core::Inbound& in = **inbound;
      core::Peer& peer = *nodes_[to]->peer;
      if (in.kind == core::Inbound::Kind::kDirect && !payload->empty() && peer.IsLive(in.attempt)) {
        std::memcpy(in.target, payload->data(), payload->size());
      }
      const Status status = peer.OnPayload(link, *payload);
      EXPECT_TRUE(status.ok()) << status.text();
      Drain(to);
    }
    if (generation_[key] != generation) return;
    sending_.erase(key);
    if (nodes_[from]->alive) Drain(from);
  });
}

// ---------------------------------------------------------------------------------------------- what tests ask

std::uint32_t Cluster::NodeOf(PeerId peer) const {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->id == peer) return i;
  }
  RINGWAY_CHECK(false);
  return 0;
}

bool Cluster::Joined(std::uint32_t node) const { return nodes_[node]->joined; }
bool Cluster::Ended(std::uint32_t node) const { return nodes_[node]->ended; }
Code Cluster::EndedCode(std::uint32_t node) const { return nodes_[node]->ended_code; }
std::string Cluster::PendingText(std::uint32_t node) const { return nodes_[node]->pending; }
PeerId Cluster::IdOf(std::uint32_t node) const { return nodes_[node]->id; }
std::uint32_t Cluster::WorldOf(std::uint32_t node) const { return nodes_[node]->world; }
core::PeerStatus Cluster::StatusOf(std::uint32_t node) const { return nodes_[node]->peer->GetStatus(); }
const std::map<OpName, Outcome>& Cluster::OutcomesOf(std::uint32_t node) const { return nodes_[node]->outcomes; }
std::uint32_t Cluster::Submitted(std::uint32_t node) const { return nodes_[node]->submitted; }

bool Cluster::AllDone(const std::vector<std::uint32_t>& nodes) const {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](std::uint32_t node) { return nodes_[node]->outcomes.size() == nodes_[node]->submitted; });
}

void Cluster::CheckAgreement(const std::vector<std::uint32_t>& nodes) const {
  std::set<OpName> exact;  // proven for one node: the others hold the same bytes
  for (const std::uint32_t node : nodes) {
    for (const auto& [name, outcome] : nodes_[node]->outcomes) {
      if (!exact.insert(name).second) continue;
      for (const std::uint32_t other : nodes) {
        const auto theirs = nodes_[other]->outcomes.find(name);
        if (theirs == nodes_[other]->outcomes.end()) continue;
        ASSERT_EQ(outcome.code, theirs->second.code) << ToString(name) << ": " << outcome.text << theirs->second.text;
        if (outcome.code != Code::kOk) continue;
        ASSERT_EQ(outcome.contributors, theirs->second.contributors) << ToString(name);
        ASSERT_EQ(outcome.result, theirs->second.result) << ToString(name);
      }
      if (outcome.code != Code::kOk || outcome.descriptor.kind != OpKind::kAllReduce) continue;
      std::vector<float> got(outcome.descriptor.count);
      if (!got.empty()) std::memcpy(got.data(), outcome.result.data(), outcome.result.size());
      for (std::uint64_t i = 0; i < outcome.descriptor.count; ++i) {
        float expected = 0;
        for (const PeerId peer : outcome.contributors) expected += InputValue(peer, name, i);
        ASSERT_EQ(got[i], expected) << ToString(name) << " element " << i << " node " << node;
      }
    }
  }
}

}  // namespace ringway::sim
