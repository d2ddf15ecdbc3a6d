#include "daemon/runtime/status_json.h"

#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/frame_codec.h"

namespace ringway::daemon {
namespace {

using Json = nlohmann::ordered_json;

Json DurationsOf(const PeerDurations& durations) {
  Json out;
  for (const PeerDurationInfo& each : kPeerDurations) {
    const DurationCounts& counts = durations.*each.member;
    out[std::string(each.name)] = {{"counts", counts.counts()}, {"sum_us", counts.sum().count()}};
  }
  return out;
}

std::string NameIn(const agreement::PeerStatus& peer, PeerId other) {
  for (const control::PeerInfo& info : peer.members) {
    if (info.peer_id() == other.value) return info.name();
  }
  return "";
}

// With two decimals.
double Rounded(double value) { return std::round(value * 100) / 100; }
double Mbit(std::uint64_t bytes_per_second) { return Rounded(static_cast<double>(bytes_per_second) * 8 / 1e6); }

Json WaitOf(const agreement::PeerStatus& peer) {
  if (peer.wait.what.empty()) return nullptr;
  Json on = Json::array();
  for (const PeerId one : peer.wait.on) on.push_back(NameIn(peer, one));
  return {{"what", peer.wait.what},
          {"age_ms", peer.wait.age.count() / 1000},
          {"on", std::move(on)},
          {"reason", peer.wait.reason}};
}

Json LiveOf(const PeerReport& report) {
  std::uint64_t sent = 0;
  for (const PairStatus& pair : report.pairs) sent += report.live.bytes_per_second(pair.other);
  return {{"ops_per_s", Rounded(report.live.operations_per_second())},
          {"op_ms", Rounded(static_cast<double>(report.live.operation().count()) / 1e3)},
          {"sent_mbit", Mbit(sent)},
          {"wait", WaitOf(report.status)}};
}

Json EventsOf(const DaemonState& state) {
  Json events = Json::array();
  if (state.events == nullptr) return events;
  for (const Event& event : state.events->all()) {
    events.push_back({{"number", event.number},
                      {"age_ms", (state.now - event.at).count() / 1000},
                      {"event", event.kind},
                      {"group", event.group},
                      {"who", event.who},
                      {"text", event.text}});
  }
  return events;
}

Json PairsOf(const PeerReport& report) {
  Json pairs = Json::array();
  for (const PairStatus& pair : report.pairs) {
    pairs.push_back(
        {{"peer_id", pair.other.value},
         {"name", NameIn(report.status, pair.other)},
         {"lanes_up", pair.lanes_up},
         {"lanes_used", pair.lanes_used},
         {"retransmits", pair.retransmits},
         {"round_trip_us", pair.round_trip > Duration() ? Json(pair.round_trip.count()) : Json(nullptr)},
         {"rate_limit_mbit", pair.rate_limit > 0 ? Json(Rounded(pair.rate_limit * 8 / 1e6)) : Json(nullptr)},
         {"sent_mbit", Mbit(report.live.bytes_per_second(pair.other))}});
  }
  return pairs;
}

Json GroupOf(const PeerReport& report) {
  const agreement::PeerStatus& peer = report.status;
  Json members = Json::array();
  for (std::size_t i = 0; i < peer.members.size(); ++i) {
    const control::PeerInfo& info = peer.members[i];
    members.push_back({{"peer_id", info.peer_id()},
                       {"name", info.name()},
                       {"site", info.site()},
                       {"address", info.address()},
                       {"rank", i}});
  }
  Json ring = Json::array();
  for (const std::uint32_t rank : peer.ring) {
    if (rank < peer.members.size()) ring.push_back(peer.members[rank].name());
  }
  Json group;
  group["name"] = peer.group;
  group["epoch"] = ToString(peer.epoch);
  group["frozen"] = peer.frozen;
  group["rank"] = peer.rank.has_value() ? Json(*peer.rank) : Json(nullptr);
  group["world_size"] = peer.members.size();
  group["self"] = peer.self.value;
  group["ring"] = std::move(ring);
  group["members"] = std::move(members);
  group["ops_open"] = peer.ops_open;
  for (const PeerCountInfo& count : kPeerCounts) group[std::string(count.name)] = peer.*count.member;
  group["durations"] = DurationsOf(peer.durations);
  group["waits"] = peer.wait.text();
  group["live"] = LiveOf(report);
  group["pairs"] = PairsOf(report);
  return group;
}

}  // namespace

std::string ToJson(const DaemonIdentity& identity, const DaemonState& state, std::span<const PeerReport> peers) {
  Json status;
  status["daemon"] = {{"name", identity.name},       {"site", identity.site},
                      {"address", identity.address}, {"pid", ::getpid()},
                      {"master", identity.master},   {"master_connected", state.master_connected},
                      {"version", RINGWAY_VERSION},  {"advice", identity.advice}};
  status["daemon"]["draining"] = state.draining;
  status["daemon"]["protocol"] = {kProtocolVersionMin, kProtocolVersionMax};
  status["daemon"]["descriptors"] = {{"limit", state.descriptors.limit},
                                     {"lanes", state.lanes},
                                     {"lanes_max", state.descriptors.more_lanes_max()},
                                     {"kept", state.kept}};
  if (state.uplink_limit_mbit > 0) status["daemon"]["uplink_limit_mbit"] = state.uplink_limit_mbit;
  status["daemon"]["security"] = JsonOf<Json>(state.security);
  if (state.memory != nullptr) {
    Json memory = {{"max", state.memory->bytes_max()}};
    for (std::size_t use = 0; use < kMemoryUses; ++use) {
      memory[kMemoryUseNames[use]] = state.memory->used(static_cast<MemoryUse>(use));
    }
    status["daemon"]["memory"] = std::move(memory);
  }
  status["groups"] = Json::array();
  for (const PeerReport& peer : peers) status["groups"].push_back(GroupOf(peer));
  status["events"] = EventsOf(state);
  // Labels come from other hosts: invalid UTF-8 is replaced, where dump would throw by default.
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringway::daemon
