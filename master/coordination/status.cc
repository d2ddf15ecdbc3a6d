#include "master/coordination/status.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "proto/frame_codec.h"
#include "proto/peer_counts.h"

namespace ringway {
namespace {

using nlohmann::json;

json PeerJson(const Group& group, PeerId id, const PeerState& peer) {
  const auto& members = group.current().members();
  const auto place = std::find_if(members.begin(), members.end(),
                                  [id](const control::PeerInfo& info) { return info.peer_id() == id.value; });
  const bool member = place != members.end();
  json out = {{"peer_id", id.value},
              {"name", peer.info.name()},
              {"site", peer.info.site()},
              {"address", peer.info.address()},
              {"rank", member ? json(static_cast<std::uint64_t>(place - members.begin())) : json()},
              {"state", member ? "member" : "pending"},
              {"why", member ? "" : peer.explained},
              {"online", peer.online()}};
  for (std::size_t i = 0; i < kPeerCounts.size(); ++i) {
    const int place_in_list = static_cast<int>(i);
    const bool is_reported = place_in_list < peer.counters.counts_size();
    out[std::string(kPeerCounts[i].name)] = is_reported ? peer.counters.counts(place_in_list) : 0;
  }
  return out;
}

json GroupJson(const Group& group) {
  json ring = json::array();
  for (const std::uint32_t rank : group.current().ring()) {
    const control::PeerInfo& info = group.current().members(static_cast<int>(rank));
    ring.push_back(info.name().empty() ? "peer " + std::to_string(info.peer_id()) : info.name());
  }
  json peers = json::array();
  for (const auto& [id, peer] : group.peers()) peers.push_back(PeerJson(group, id, peer));
  return {{"name", group.name()},
          {"epoch", ToString(Epoch(group.current().epoch()))},
          {"world_size", group.current().members_size()},
          {"min_world", group.current().min_world()},
          {"collecting", group.collecting()},
          {"ring", std::move(ring)},
          {"peers", std::move(peers)}};
}

std::string Dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

StatusReport::StatusReport(std::size_t bytes_max) {
  constexpr std::size_t kFrameworkBytes = 1024;
  bytes_left_ = bytes_max - kFrameworkBytes;
}

void StatusReport::Add(std::string& list, const std::string& item) {
  if (item.size() + 1 > bytes_left_) {
    bytes_left_ = 0;  // leave out all later ones, too, so that the list has no gaps
    ++left_out_;
    return;
  }
  bytes_left_ -= item.size() + 1;
  if (!list.empty()) list += ',';
  list += item;
}

bool StatusReport::Step(const Coordinator& coordinator) {
  constexpr int kDaemonsAtOnce = 32;
  if (!groups_done_) {
    const auto next = coordinator.groups().upper_bound(last_group_);
    groups_done_ = next == coordinator.groups().end();
    if (groups_done_) return true;
    last_group_ = next->first;
    Add(groups_, Dumped(GroupJson(*next->second)));
    return true;
  }
  auto next = coordinator.daemons().upper_bound(last_daemon_);
  for (int i = 0; i < kDaemonsAtOnce && next != coordinator.daemons().end(); ++i, ++next) {
    const Coordinator::Daemon& daemon = next->second;
    last_daemon_ = next->first;
    Add(daemons_, Dumped({{"name", daemon.name},
                          {"site", daemon.site},
                          {"address", daemon.address},
                          {"connected", daemon.connection.has_value()},
                          {"draining", daemon.draining},
                          {"peers", daemon.peers.size()}}));
  }
  return next != coordinator.daemons().end();
}

std::string StatusReport::Finish(const Coordinator& coordinator, const ProcessFacts& facts) const {
  const json master = {{"term", coordinator.options().term},
                       {"version", facts.version},
                       {"uptime_s", facts.uptime.count() / 1000000},
                       {"utc", facts.utc},
                       {"protocol", {kProtocolVersionMin, kProtocolVersionMax}},
                       {"journal", facts.journal},
                       {"journal_path", facts.journal_path},
                       {"security", JsonOf<json>(facts.security)},
                       {"contradictions", coordinator.contradictions()},
                       {"ignored_messages", coordinator.ignored_messages()},
                       {"left_out", left_out_}};
  return "{\"master\":" + Dumped(master) + ",\"daemons\":[" + daemons_ + "],\"groups\":[" + groups_ + "]}";
}

std::string StatusJson(const Coordinator& coordinator, const ProcessFacts& facts, std::size_t bytes_max) {
  StatusReport report(bytes_max);
  while (report.Step(coordinator)) {
  }
  return report.Finish(coordinator, facts);
}

}  // namespace ringway
