#include "master/coordination/status.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "master/coordination/names.h"
#include "proto/frame_codec.h"
#include "proto/peer_counts.h"

namespace ringway {
namespace {

using nlohmann::json;

constexpr std::size_t kTrafficBytesMax = 128 << 10;  // of pairs of sites

std::string Dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// With two decimals.
double Rounded(double value) { return std::round(value * 100) / 100; }
double Mbit(std::uint64_t bytes_per_second) { return Rounded(static_cast<double>(bytes_per_second) * 8 / 1e6); }
double SecondsOf(Duration time) { return std::chrono::duration<double>(time).count(); }

// At most 1, to the thousandth.
double PartOf(std::uint64_t part, std::uint64_t whole) {
  return std::round(std::min(1.0, static_cast<double>(part) / static_cast<double>(whole)) * 1000) / 1000;
}

json WaitJson(const Group& group, const control::PeerWait& wait) {
  json on = json::array();
  for (const std::uint64_t one : wait.on()) {
    const auto found = group.peers().find(PeerId(one));
    if (found != group.peers().end()) on.push_back(NameOfPeer(found->second.info));
  }
  return {{"what", wait.what()}, {"age_ms", wait.age_ms()}, {"on", std::move(on)}, {"reason", wait.reason()}};
}

json LiveJson(const Group& group, const PeerState& peer) {
  if (!peer.counters.has_live()) return nullptr;
  const control::PeerLive& live = peer.counters.live();
  std::uint64_t sent = 0;
  for (const control::PathTraffic& path : live.paths()) {
    sent += std::min(path.bytes_per_second(), PathBook::kBytesPerSecondMax);
  }
  return {{"ops_per_s", Rounded(live.operations_milli() / 1e3)},
          {"op_ms", Rounded(static_cast<double>(live.operation_us()) / 1e3)},
          {"sent_mbit", Mbit(sent)},
          {"wait", live.has_wait() ? WaitJson(group, live.wait()) : json()}};
}

// Square matrices, by rank.
json PathsJson(const Group& group, TimePoint now) {
  const auto& members = group.current().members();
  json ranks = json::array(), delays = json::array(), rates = json::array(), sent = json::array(), ages = json::array();
  json resent = json::array();
  for (const control::PeerInfo& from : members) {
    json delay = json::array(), rate = json::array(), now_sent = json::array(), age = json::array();
    json again = json::array();
    const auto sender = group.peers().find(PeerId(from.peer_id()));
    const bool is_known = sender != group.peers().end() && sender->second.counters.has_live();
    std::map<std::uint64_t, const control::PathTraffic*> traffic;
    if (is_known) {
      for (const auto& path : sender->second.counters.live().paths()) traffic[path.other()] = &path;
    }
    for (const control::PeerInfo& to : members) {
      const PathBook::Facts facts = group.measured().FactsOf(PeerId(from.peer_id()), PeerId(to.peer_id()));
      const bool has_delay = facts.round_trip > Duration();
      delay.push_back(has_delay ? json(Rounded(SecondsOf(facts.round_trip) * 500)) : json());
      rate.push_back(facts.bytes_per_second > 0 ? json(Mbit(facts.bytes_per_second)) : json());
      age.push_back(facts.measured_at ? json(static_cast<std::int64_t>(SecondsOf(now - *facts.measured_at))) : json());
      const auto found = traffic.find(to.peer_id());
      const std::uint64_t bytes = found == traffic.end() ? 0 : found->second->bytes_per_second();
      now_sent.push_back(!is_known ? json() : json(Mbit(bytes)));
      again.push_back(bytes == 0 ? json() : json(PartOf(found->second->resent_per_second(), bytes)));
    }
    ranks.push_back(NameOfPeer(from));
    delays.push_back(std::move(delay));
    rates.push_back(std::move(rate));
    sent.push_back(std::move(now_sent));
    resent.push_back(std::move(again));
    ages.push_back(std::move(age));
  }
  return {{"ranks", std::move(ranks)},    {"delay_ms", std::move(delays)},    {"rate_mbit", std::move(rates)},
          {"sent_mbit", std::move(sent)}, {"resent_part", std::move(resent)}, {"age_s", std::move(ages)}};
}

json HistoryJson(const Group& group, TimePoint now) {
  json out = json::array();
  for (const OpHistory::Sample& sample : group.history().samples()) {
    out.push_back({{"age_s", static_cast<std::int64_t>(SecondsOf(now - sample.at))},
                   {"ops_per_s", Rounded(sample.operations_per_second)},
                   {"op_ms", Rounded(sample.operation_ms)},
                   {"world", sample.world}});
  }
  return out;
}

json PeerJson(const Group& group, PeerId id, const PeerState& peer) {
  const auto& members = group.current().members();
  const auto place = std::find_if(members.begin(), members.end(),
                                  [id](const control::PeerInfo& info) { return info.peer_id() == id.value; });
  const bool member = place != members.end();
  json out = {{"peer_id", id.value},
              {"name", peer.info.name()},
              {"site", peer.info.site()},
              {"address", peer.info.address()},
              {"daemon", peer.info.daemon()},
              {"rank", member ? json(static_cast<std::uint64_t>(place - members.begin())) : json()},
              {"state", member ? "member" : "pending"},
              {"why", member ? "" : peer.explained},
              {"online", peer.online()},
              {"live", LiveJson(group, peer)}};
  for (std::size_t i = 0; i < kPeerCounts.size(); ++i) {
    const int place_in_list = static_cast<int>(i);
    const bool is_reported = place_in_list < peer.counters.counts_size();
    out[std::string(kPeerCounts[i].name)] = is_reported ? peer.counters.counts(place_in_list) : 0;
  }
  return out;
}

json CostJson(const Pricing& pricing, std::optional<double> cost) {
  return pricing.list == nullptr || !cost ? json() : json(*cost);
}

json TrafficJson(const TrafficBill& bill, const Pricing& pricing, TimePoint now, std::size_t bytes_max) {
  json pairs = json::array();
  Traffic rest = bill.rest();
  std::size_t bytes = 0;
  for (const auto& [pair, sent] : bill.pairs()) {
    json one = {{"from", pair.from}, {"to", pair.to}, {"bytes", sent.bytes}, {"cost", CostJson(pricing, sent.cost)}};
    bytes += Dumped(one).size() + 1;
    if (bytes <= bytes_max) {
      pairs.push_back(std::move(one));
    } else {
      rest.bytes += sent.bytes;
      rest.cost += sent.cost;
    }
  }
  return {{"cost_hour", CostJson(pricing, bill.CostOfHour(now))},
          {"pairs", std::move(pairs)},
          {"rest", {{"bytes", rest.bytes}, {"cost", CostJson(pricing, rest.cost)}}}};
}

json SlowHostJson(const Group& group) {
  if (!group.slow_peer()) return nullptr;
  return {{"name", group.slow_peer()->name}, {"ratio", Rounded(group.slow_peer()->ratio)}};
}

json GroupJson(const Group& group, bool paths, TimePoint now) {
  json ring = json::array();
  for (const std::uint32_t rank : group.current().ring()) {
    ring.push_back(NameOfPeer(group.current().members(static_cast<int>(rank))));
  }
  json peers = json::array();
  for (const auto& [id, peer] : group.peers()) peers.push_back(PeerJson(group, id, peer));
  const Epoch prepared = group.NewestPrepared();
  json out = {{"name", group.name()},
              {"epoch", ToString(Epoch(group.current().epoch()))},
              {"world_size", group.current().members_size()},
              {"min_world", group.current().min_world()},
              {"collecting", group.collecting()},
              {"prepared", prepared == Epoch() ? json() : json(ToString(prepared))},
              {"hung_ms", group.current().hung_ms()},
              {"slow_host", SlowHostJson(group)},
              {"ring", std::move(ring)},
              {"cost_hour", CostJson(group.pricing(), group.traffic().CostOfHour(now))},
              {"cost_operation", CostJson(group.pricing(), group.traffic().CostOfOperation(now))},
              {"peers", std::move(peers)}};
  if (!paths) return out;
  out["paths"] = PathsJson(group, now);
  out["history"] = HistoryJson(group, now);
  out["traffic"] = TrafficJson(group.traffic(), group.pricing(), now, kTrafficBytesMax);
  return out;
}

}  // namespace

StatusQuery QueryOf(const control::StatusRequest& request) {
  StatusQuery query{.group = request.group(), .paths = request.paths(), .only_events = request.only_events()};
  if (request.events()) query.events_after = request.events_after();
  return query;
}

StatusReport::StatusReport(std::size_t bytes_max, StatusQuery query) : query_(std::move(query)) {
  constexpr std::size_t kFrameworkBytes = 1280;
  bytes_left_ = bytes_max - kFrameworkBytes - (query_.events_after ? kEventsBytesMax : 0);
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
  if (query_.only_events) return false;
  if (!groups_done_) {
    const bool is_one = !query_.group.empty();
    const auto next = is_one ? coordinator.groups().find(query_.group) : coordinator.groups().upper_bound(last_group_);
    groups_done_ = is_one || next == coordinator.groups().end();
    if (next == coordinator.groups().end()) return true;
    last_group_ = next->first;
    Add(groups_, Dumped(GroupJson(*next->second, query_.paths, coordinator.now())));
    return true;
  }
  auto next = coordinator.daemons().upper_bound(last_daemon_);
  for (int i = 0; i < kDaemonsAtOnce && next != coordinator.daemons().end(); ++i, ++next) {
    const Coordinator::Daemon& daemon = next->second;
    last_daemon_ = next->first;
    Add(daemons_, Dumped({{"name", daemon.name},
                          {"site", daemon.site},
                          {"address", daemon.address},
                          {"version", daemon.release.empty() ? json() : json(daemon.release)},
                          {"connected", daemon.connection.has_value()},
                          {"draining", daemon.draining},
                          {"peers", daemon.peers.size()},
                          {"memory_used", daemon.memory_used},
                          {"memory_max", daemon.memory_max}}));
  }
  return next != coordinator.daemons().end();
}

std::string StatusReport::Finish(const Coordinator& coordinator, const ProcessFacts& facts) const {
  const PriceList* const prices = coordinator.options().pricing.list.get();
  const json master = {{"term", facts.leads ? coordinator.options().term : 0},
                       {"role", facts.leads ? "leader" : "standby"},
                       {"leader", facts.leader},
                       {"version", facts.version},
                       {"uptime_s", facts.uptime.count() / 1000000},
                       {"utc", facts.utc},
                       {"protocol", {kProtocolVersionMin, kProtocolVersionMax}},
                       {"journal", facts.journal},
                       {"journal_path", facts.journal_path},
                       {"security", JsonOf<json>(facts.security)},
                       {"contradictions", coordinator.contradictions()},
                       {"ignored_messages", coordinator.ignored_messages()},
                       {"left_out", left_out_},
                       {"currency", prices == nullptr ? json() : json(prices->currency())}};
  const std::string events = query_.events_after ? ",\"events\":" + Events(coordinator) : "";
  return "{\"master\":" + Dumped(master) + ",\"daemons\":[" + daemons_ + "],\"groups\":[" + groups_ + "]" + events +
         TrafficOfAll(coordinator) + "}";
}

std::string StatusReport::TrafficOfAll(const Coordinator& coordinator) const {
  if (query_.only_events || !query_.group.empty()) return "";
  const std::size_t bytes_max = std::min(kTrafficBytesMax, bytes_left_);
  return ",\"traffic\":" +
         Dumped(TrafficJson(coordinator.traffic(), coordinator.options().pricing, coordinator.now(), bytes_max));
}

std::string StatusReport::Events(const Coordinator& coordinator) const {
  const std::deque<Event>& all = coordinator.timeline().log().all();
  const auto is_old = [&](const Event& event) { return event.number <= *query_.events_after; };
  auto next = std::partition_point(all.begin(), all.end(), is_old);
  if (*query_.events_after == 0) next = all.end() - static_cast<std::ptrdiff_t>(std::min(all.size(), kEventsMax));
  std::string out;
  for (std::size_t count = 0; next != all.end() && count < kEventsMax; ++next, ++count) {
    const std::string one = Dumped({{"number", next->number},
                                    {"age_ms", (coordinator.now() - next->at).count() / 1000},
                                    {"event", next->kind},
                                    {"group", next->group},
                                    {"who", next->who},
                                    {"text", next->text}});
    if (out.size() + one.size() + 1 > kEventsBytesMax) break;
    out += (out.empty() ? "" : ",") + one;
  }
  return "[" + out + "]";
}

std::string StatusJson(const Coordinator& coordinator, const ProcessFacts& facts, std::size_t bytes_max) {
  StatusReport report(bytes_max);
  while (report.Step(coordinator)) {
  }
  return report.Finish(coordinator, facts);
}

}  // namespace ringway
