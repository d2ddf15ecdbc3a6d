#include "master/status.h"

#include <algorithm>
#include <cstdint>
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
          {"rank", member ? json(static_cast<std::uint64_t>(place - members.begin())) : json()},
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

// An array that stops growing at a number of bytes of JSON, shared with others.
struct Bounded {
  std::size_t& bytes_left;
  json array = json::array();
  std::size_t left_out = 0;

  void Add(json value) {
    const std::size_t bytes = Dumped(value).size() + 1;
    if (bytes > bytes_left) {
      bytes_left = 0;  // none of the later ones either, so that what is shown has no gaps
      ++left_out;
      return;
    }
    bytes_left -= bytes;
    array.push_back(std::move(value));
  }
};

}  // namespace

std::string StatusJson(const Coordinator& coordinator, Duration uptime, const std::string& journal,
                       std::size_t bytes_max) {
  constexpr std::size_t kFrameworkBytes = 1024;
  std::size_t bytes_left = bytes_max - kFrameworkBytes;
  Bounded groups{bytes_left};
  for (const auto& [name, group] : coordinator.groups()) groups.Add(GroupJson(*group));
  Bounded daemons{bytes_left};
  for (const auto& [id, daemon] : coordinator.daemons()) {
    daemons.Add({{"name", daemon.name},
                 {"site", daemon.site},
                 {"address", daemon.address},
                 {"connected", daemon.connection.has_value()}});
  }
  return Dumped({{"master",
                  {{"term", coordinator.options().term},
                   {"version", RINGWAY_VERSION},
                   {"uptime_s", uptime.count() / 1000000},
                   {"journal", journal},
                   {"contradictions", coordinator.contradictions()},
                   {"ignored_messages", coordinator.ignored_messages()},
                   {"left_out", groups.left_out + daemons.left_out}}},
                 {"daemons", std::move(daemons.array)},
                 {"groups", std::move(groups.array)}});
}

}  // namespace ringway
