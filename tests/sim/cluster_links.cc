#include <algorithm>
#include <cstring>

#include "proto/check.h"
#include "proto/hash.h"
#include "tests/sim/cluster_impl.h"
#include "tests/sim/flip.h"

namespace ringway::sim {
namespace {

// A peer that does not know its dialler yet holds the offer and tries again, as the data plane does.
constexpr Duration kRetryOffer = std::chrono::milliseconds(100);
constexpr std::uint32_t kOfferTriesMax = 20;

constexpr std::uint32_t kDialler = 0;
constexpr std::uint32_t kAcceptor = 1;

}  // namespace

std::optional<std::uint32_t> Cluster::NodeOf(PeerId peer) const {
  const auto found = node_of_.find(peer);
  if (found == node_of_.end()) return std::nullopt;
  return found->second;
}

// ---------------------------------------------------------------------------------------------- dials

void Cluster::Dial(std::uint32_t from, const links::Dial& dial) {
  Node& node = *nodes_[from];
  const std::uint64_t serial = node.dials.Begin(dial, LinksOf(dial).size());
  node.dialled[serial] = dial;
  events_.After(network_.Delay(node.host, HostAt(dial.at.address)), [this, from, serial] { Offer(from, serial, 0); });
}

void Cluster::Offer(std::uint32_t from, std::uint64_t serial, std::uint32_t tries) {
  const Node& dialler = *nodes_[from];
  if (dialler.ended || !Alive(dialler.host) || !dialler.dialled.contains(serial)) return;
  const links::Dial& dial = dialler.dialled.at(serial);
  const Host host = HostAt(dial.at.address);
  const auto fail = [this, from, serial](Duration after, Code code, const std::string& why) {
    events_.After(after, [=, this] { FinishDial(from, serial, {}, Status(code, why)); });
  };
  const std::optional<std::uint32_t> to = NodeOf(dial.other);
  const bool unreachable = dialler.unreachable || (to && nodes_[*to]->unreachable) ||
                           (host != dialler.host && daemons_[host]->inbound != Inbound::kOpen);
  if (!network_.Hears(dialler.host, host) || !network_.Hears(host, dialler.host) || !daemons_[host]->powered ||
      unreachable) {
    return fail(std::chrono::milliseconds(options_.master.detect_ms), Code::kPeerUnreachable, "timed out");
  }
  if (!Alive(host)) return fail(network_.Delay(host, dialler.host), Code::kJoinRefused, "connection refused");
  if (dialler.refused || (to && nodes_[*to]->refused)) {
    return fail(network_.Delay(host, dialler.host), Code::kJoinRefused, "certificate refused");
  }
  Status admitted(Code::kJoinRefused, "peer " + ToString(dial.other) + " is not here");
  if (to && !nodes_[*to]->ended) {
    const LinkId link{dialler.id, dial.control, LaneId(0)};
    const links::LinkTerms terms{.lanes = dial.control ? 0 : options_.lanes, .dialled_all = dial.all};
    const Identity who{.role = ProcessRole::kDaemon, .name = daemons_[dialler.host]->name};
    admitted = nodes_[*to]->peer->Admit(link, terms, &who);
  }
  if (admitted.ok()) return Accept(from, *to, serial);
  if (admitted.code() == Code::kJoinRefused && tries < kOfferTriesMax && !dial.known) {
    return events_.After(kRetryOffer, [this, from, serial, tries] { Offer(from, serial, tries + 1); });
  }
  fail(network_.Delay(host, dialler.host), admitted.code(), admitted.text());
}

// The links that a dial opens: the control link, the missing lanes, or all of them.
std::vector<LaneId> Cluster::LinksOf(const links::Dial& dial) const {
  if (dial.control) return {LaneId(0)};
  std::vector<LaneId> lanes = dial.missing;
  for (std::uint32_t lane = 0; lanes.size() < options_.lanes && dial.missing.empty(); ++lane) lanes.emplace_back(lane);
  return lanes;
}

void Cluster::Accept(std::uint32_t from, std::uint32_t to, std::uint64_t serial) {
  const links::Dial dial = nodes_[from]->dialled.at(serial);
  std::vector<Connection*> connections;
  for (const LaneId lane : LinksOf(dial)) {
    if (network_.Flips()) {  // its LinkHello
      connections.push_back(nullptr);
      continue;
    }
    Connection& connection = network_.Open(nodes_[from]->host, nodes_[to]->host);
    connection.reads[kDialler] = false;  // until the reply is here
    connections.push_back(&connection);
    AddLink(to, {nodes_[from]->id, dial.control, lane}, dial, {&connection, kAcceptor, from});
  }
  events_.After(network_.Delay(nodes_[to]->host, nodes_[from]->host), [this, from, serial, connections]() mutable {
    for (Connection*& connection : connections) {
      if (connection == nullptr || !network_.Flips()) continue;
      network_.Close(*std::exchange(connection, nullptr), kDialler);  // its LinkReply
    }
    FinishDial(from, serial, connections, Status::Ok());
  });
}

void Cluster::FinishDial(std::uint32_t from, std::uint64_t serial, const std::vector<Connection*>& connections,
                         const Status& failure) {
  Node& node = *nodes_[from];
  if (daemons_[node.host]->stopped) {
    return WhenRunning(node.host, [=, this] { FinishDial(from, serial, connections, failure); });
  }
  const bool wanted = Alive(node.host) && !node.ended && node.dialled.contains(serial);
  const links::Dial dial = wanted ? node.dialled.extract(serial).mapped() : links::Dial{};
  const auto stand =
      connections.size() - static_cast<std::size_t>(std::count(connections.begin(), connections.end(), nullptr));
  Status why = failure;
  if (why.ok() && stand < connections.size()) why = Status(Code::kPeerUnreachable, "not all of its links stand");
  const auto verdict = node.dials.OnAnswer(serial, {.links = stand, .last = true, .failure = why});
  const std::vector<LaneId> lanes = LinksOf(dial);
  for (std::size_t i = 0; i < connections.size(); ++i) {
    if (connections[i] == nullptr) continue;
    if (!wanted || !verdict.take) {
      network_.Close(*connections[i], kDialler);
      continue;
    }
    const LinkId id{dial.other, dial.control, lanes[i]};
    AddLink(from, id, dial, {connections[i], kDialler, NodeOf(dial.other).value_or(from)});
  }
  if (!wanted || !verdict.report || node.ended) return;
  node.peer->OnDialFailed(verdict.other, verdict.control, verdict.why, events_.now());
  Drain(from);
}

// ---------------------------------------------------------------------------------------------- links

void Cluster::AddLink(std::uint32_t index, const LinkId& id, const links::Dial& dial, const LinkEnd& end) {
  Node& node = *nodes_[index];
  if (node.ended) return network_.Close(*end.connection, end.side);
  Link& link = node.links[id];
  if (link.connection != nullptr) network_.Close(*link.connection, link.side);
  link = {.connection = end.connection, .side = end.side, .to = end.to, .sending = false, .inbound = std::nullopt};
  end.connection->on_closed[end.side] = [this, index, id] { OnLinkClosed(index, id); };
  network_.StartReading(*end.connection, end.side);
  const Host there = nodes_[end.to]->host;
  node.peer->OnLinkUp(id,
                      {.lanes = id.control ? 0 : options_.lanes,
                       .lanes_max = id.control ? 0 : options_.lanes_max,
                       .generation = dial.generation,
                       .round_trip = options_.delays_are_known ? 2 * network_.Delay(node.host, there) : Duration(),
                       .host = there == node.host ? "" : daemons_[there]->name,
                       .probe_bytes = options_.probe_bytes,
                       .dialled_all = dial.all && end.side == kAcceptor},
                      events_.now());
  Drain(index);
}

// Only the newest connection of a link is open on this side, so it is the one that closed.
void Cluster::OnLinkClosed(std::uint32_t index, const LinkId& id) {
  Node& node = *nodes_[index];
  node.links.erase(id);
  node.peer->OnLinkDown(id, "closed", events_.now());
  Drain(index);
}

void Cluster::CloseLinks(std::uint32_t index, const links::CloseLinks& which) {
  Node& node = *nodes_[index];
  if (!which.lane) node.dials.Close(which.other);
  std::erase_if(node.links, [&](const auto& entry) {
    const LinkId& id = entry.first;
    if (id.other != which.other || (which.lane && (id.control || id.lane != *which.lane))) return false;
    network_.Close(*entry.second.connection, entry.second.side);
    return true;
  });
}

void Cluster::CloseAllLinks(std::uint32_t index, bool silently) {
  Node& node = *nodes_[index];
  node.dialled.clear();
  node.dials.Clear();
  for (const auto& [id, link] : std::exchange(node.links, {})) {
    if (silently) {
      network_.Vanish(*link.connection, link.side);
    } else {
      network_.Close(*link.connection, link.side);
    }
  }
}

void Cluster::CutLane(std::uint32_t a, std::uint32_t b, LaneId lane) {
  const auto found = nodes_[a]->links.find({IdOf(b), false, lane});
  if (found == nodes_[a]->links.end()) return;
  Trace(NameOf(a), "loses a lane to " + NameOf(b));
  network_.Reset(*found->second.connection);
}

void Cluster::CutControl(std::uint32_t a, std::uint32_t b) {
  const auto found = nodes_[a]->links.find({IdOf(b), true, LaneId(0)});
  if (found == nodes_[a]->links.end()) return;
  Trace(NameOf(a), "loses its control link to " + NameOf(b));
  network_.Reset(*found->second.connection);
}

void Cluster::CutAllLinks(std::uint32_t a, std::uint32_t b) {
  CutControl(a, b);
  for (std::uint32_t lane = 0; lane < std::max(options_.lanes, options_.lanes_max); ++lane) CutLane(a, b, LaneId(lane));
}

void Cluster::BreakLink(std::uint32_t index, const LinkId& id) {
  const Link& link = nodes_[index]->links.at(id);
  network_.Close(*link.connection, link.side);
  OnLinkClosed(index, id);
}

void Cluster::ExpectRefusal(const google::protobuf::MessageLite& message) {
  if (!IsRefusedWhenFlipped(message, random_)) checker_.Fail("a flipped bit in a frame is not noticed");
}

void Cluster::WantLanes(std::uint32_t index, std::uint32_t other, std::uint32_t lanes) {
  Trace(NameOf(index), "has a use for " + std::to_string(lanes) + " lanes to " + NameOf(other));
  nodes_[index]->peer->WantLanes(IdOf(other), lanes, events_.now());
  Drain(index);
}

std::uint32_t Cluster::LanesUp(std::uint32_t index, std::uint32_t other) const {
  const auto is_lane = [&](const auto& link) { return link.first.other == IdOf(other) && !link.first.control; };
  const auto& links = nodes_[index]->links;
  return static_cast<std::uint32_t>(std::count_if(links.begin(), links.end(), is_lane));
}

void Cluster::SendToPeer(std::uint32_t index, const agreement::ToPeer& action) {
  Node& node = *nodes_[index];
  const auto found = node.links.find({action.to, true, LaneId(0)});
  if (found == node.links.end()) return;
  const Link& link = found->second;
  const bool flips = network_.Flips();
  if (flips) ExpectRefusal(action.message);
  network_.Send(*link.connection, link.side, [this, to = link.to, from = node.id, message = action.message, flips] {
    if (tracing() && !message.has_heartbeat()) {
      Trace(NameOf(to),
            (flips ? "refuses, broken, from " : "hears from ") + ToString(from) + ": " + message.ShortDebugString());
    }
    const bool ok = !flips && nodes_[to]->peer->OnPeerMessage(from, message, events_.now()).ok();
    if (!ok) return BreakLink(to, {from, true, LaneId(0)});
    Drain(to);
  });
}

// ---------------------------------------------------------------------------------------------- frames

void Cluster::Pump(std::uint32_t index) {
  Node& node = *nodes_[index];
  const Daemon& daemon = *daemons_[node.host];
  if (!daemon.alive || daemon.stopped) return;
  for (const PeerId other : node.peer->PeersWithWork()) {
    for (std::uint32_t lane = 0; lane < std::max(options_.lanes, options_.lanes_max); ++lane) {
      const LinkId id{other, false, LaneId(lane)};
      const auto link = node.links.find(id);
      agreement::Outbound out;
      if (link == node.links.end() || link->second.sending) continue;
      // Now and then an empty frame, as runtimes send behind the last segment.
      const bool is_empty = options_.empty_one_of != 0 && ++offers_ % options_.empty_one_of == 0;
      const bool has_one =
          is_empty ? node.peer->EmptyFrame(id, out) : node.peer->NextSegment(id, kPayloadBytesMax, scratch_, out);
      if (!has_one) break;
      SendFrame(index, id, std::move(out));
    }
  }
}

void Cluster::SendFrame(std::uint32_t index, const LinkId& id, agreement::Outbound out) {
  Link& link = nodes_[index]->links.at(id);
  link.sending = true;
  const auto header = DecodeSegmentHeader(out.header);
  RINGWAY_CHECK(header.ok());
  if (tracing()) {
    const SegmentHeader& h = header.value();
    Trace(NameOf(index), "sends " + ToString(id.other) + " on lane " + std::to_string(id.lane.value) + " " +
                             ToString(h.op) + " epoch " + ToString(h.epoch) + " step " + std::to_string(h.step) +
                             " chunk " + std::to_string(h.chunk) + " segment " + std::to_string(h.segment));
  }
  const LinkId back{nodes_[index]->id, false, id.lane};
  const bool flips = network_.Flips();
  const bool flips_payload = flips && !out.payload.empty() && random_() % 2 == 0;
  if (flips && !flips_payload) {
    auto bytes = out.header;
    FlipABit(bytes, random_);
    if (DecodeSegmentHeader(bytes).ok()) checker_.Fail("a flipped bit in a segment's header is not noticed");
    network_.Send(*link.connection, link.side, [this, to = link.to, back] { BreakLink(to, back); });
    return;
  }
  network_.Send(*link.connection, link.side,
                [this, to = link.to, back, header = header.value()] { OnFrameHeader(to, back, header); });
  // Encoded payloads are copied out of the scratch now; others are read from memory when they leave, which is late.
  std::shared_ptr<std::vector<std::byte>> copy;
  if (header.value().descriptor.codec != Codec::kNone || flips_payload) {
    copy = std::make_shared<std::vector<std::byte>>(out.payload.begin(), out.payload.end());
  }
  if (flips_payload) FlipABit(*copy, random_);
  network_.Send(*link.connection, link.side,
                [this, index, id, back, to = link.to, connection = link.connection, copy, out, flips_payload] {
                  if (copy || !Scribble(index, to, back, out.payload)) {
                    OnFramePayload(to, back, copy ? std::span<const std::byte>(*copy) : out.payload, flips_payload);
                  }
                  WhenRunning(HostOf(index), [=, this] { OnFrameSent(index, id, connection); });
                });
}

// The trainer writes to its output while a frame is read from there. Returns false if it does not; a write that nobody
// could have noticed is taken back.
bool Cluster::Scribble(std::uint32_t index, std::uint32_t to, const LinkId& id, std::span<const std::byte> payload) {
  Node& node = *nodes_[index];
  Node& receiver = *nodes_[to];
  const auto link = receiver.links.find(id);
  if (!node.scribbles || payload.empty() || link == receiver.links.end() || !link->second.inbound) return false;
  if (link->second.inbound->kind == agreement::Inbound::Kind::kDiscard) return false;
  for (auto& [token, op] : node.operations) {
    const std::shared_ptr<std::vector<std::byte>> result = op.result;
    const std::less_equal<const std::byte*> before_or_at;
    if (!before_or_at(result->data(), payload.data()) || before_or_at(result->data() + result->size(), payload.data()))
      continue;
    const auto offset = static_cast<std::size_t>(payload.data() - result->data());
    const bool corrupted = std::exchange(receiver.corrupted, false);
    op.scribbled = true;
    node.scribbles = false;
    (*result)[offset] ^= std::byte{1};
    const std::uint64_t number = token;
    OnFramePayload(to, id, payload, false);
    if (std::exchange(receiver.corrupted, corrupted)) {
      node.scribbled = true;
      return true;
    }
    (*result)[offset] ^= std::byte{1};
    node.scribbles = true;
    if (const auto open = node.operations.find(number); open != node.operations.end()) open->second.scribbled = false;
    return true;
  }
  return false;
}

void Cluster::OnFrameSent(std::uint32_t index, const LinkId& id, const Connection* connection) {
  const auto link = nodes_[index]->links.find(id);
  if (link == nodes_[index]->links.end() || link->second.connection != connection) return;
  link->second.sending = false;
  Drain(index);
}

void Cluster::OnFrameHeader(std::uint32_t index, const LinkId& id, const SegmentHeader& header) {
  Node& node = *nodes_[index];
  const Result<agreement::Inbound> inbound = node.peer->OnHeader(id, header);
  if (!inbound.ok()) checker_.Fail(NameOf(index) + ": refuses a header: " + inbound.status().text());
  if (inbound.ok()) node.links.at(id).inbound = inbound.value();
  Drain(index);
}

void Cluster::OnFramePayload(std::uint32_t index, const LinkId& id, std::span<const std::byte> payload, bool flipped) {
  Node& node = *nodes_[index];
  Link& link = node.links.at(id);
  const std::optional<agreement::Inbound> inbound = std::exchange(link.inbound, std::nullopt);
  if (!inbound || inbound->kind == agreement::Inbound::Kind::kDiscard) return;
  if (inbound->kind == agreement::Inbound::Kind::kDirect && !payload.empty() && node.peer->IsLive(inbound->attempt)) {
    std::memcpy(inbound->target, payload.data(), payload.size());
  }
  const Status status = node.peer->OnPayload(id, payload, Hash64(payload));
  if (!status.ok()) {
    // Where no bit was flipped, the sender's trainer has its memory back: it has ended, or this node was left behind.
    // Or it wrote to it before.
    const Node& sender = *nodes_[link.to];
    node.corrupted = node.corrupted || !(flipped || sender.ended || sender.scribbled);
    Trace(NameOf(index), "refuses a payload from " + ToString(id.other) + ": " + status.text());
    return BreakLink(index, id);
  }
  Drain(index);
}

}  // namespace ringway::sim
