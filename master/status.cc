#include "master/status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ringway {
namespace {

using nlohmann::json;

json PeerJson(const Group& group, PeerId id, const Group::PeerState& peer) {
  const auto& members = group.current().members();
  const auto place = std::find_if(members.begin(), members.end(),
                                  [id](const control::PeerInfo& info) { return info.peer_id() == id.value; });
  const bool member = place != members.end();
  const control::PeerCounters& counters = peer.counters;
  return {{"peer_id", id.value},
          {"name", peer.info.name()},
          {"site", peer.info.site()},
          {"address", peer.info.address()},
          {"rank", member ? json(place - members.begin()) : json()},
          {"state", member ? "member" : "pending"},
          {"why", member ? "" : peer.told},
          {"online", peer.online},
          {"ops_done", counters.ops_done()},
          {"ops_retried", counters.ops_retried()},
          {"ops_failed", counters.ops_failed()},
          {"bytes_sent", counters.bytes_sent()},
          {"bytes_received", counters.bytes_received()}};
}

json GroupJson(const Group& group) {
  json ring = json::array();
  for (const std::uint32_t rank : group.current().ring()) {
    ring.push_back(group.current().members(static_cast<int>(rank)).name());
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

}  // namespace

std::string StatusJson(const Coordinator& coordinator, Duration uptime) {
  json daemons = json::array();
  for (const auto& [id, daemon] : coordinator.daemons()) {
    daemons.push_back({{"name", daemon.name},
                       {"site", daemon.site},
                       {"address", daemon.address},
                       {"connected", daemon.connection.has_value()}});
  }
  json groups = json::array();
  for (const auto& [name, group] : coordinator.groups()) groups.push_back(GroupJson(*group));
  const json status = {{"master",
                        {{"term", coordinator.options().term},
                         {"uptime_s", uptime.count() / 1000000},
                         {"ignored_messages", coordinator.ignored_messages()}}},
                       {"daemons", std::move(daemons)},
                       {"groups", std::move(groups)}};
  return status.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ringway
