#include "client/ctl/render.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"
#include "proto/peer_counts.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;

std::string Ring(const json& group) {
  std::string out;
  const auto ring = group.find("ring");
  if (ring == group.end() || !ring->is_array() || ring->empty()) return "(no view yet)";
  for (const json& name : *ring) out += (name.is_string() ? name.get<std::string>() : name.dump()) + " -> ";
  return out + (ring->front().is_string() ? ring->front().get<std::string>() : ring->front().dump());
}

std::string RenderAdvice(const json& daemon) {
  std::string out;
  const auto advice = daemon.is_object() ? daemon.find("advice") : daemon.end();
  if (advice == daemon.end() || !advice->is_array()) return out;
  for (const json& text : *advice) {
    if (text.is_string()) out += "  advice: " + text.get<std::string>() + "\n";
  }
  return out;
}

// Use of the daemon's limits; empty for an older daemon.
std::string RenderLimits(const json& daemon) {
  std::string out;
  const auto descriptors = daemon.is_object() ? daemon.find("descriptors") : daemon.end();
  if (descriptors != daemon.end() && descriptors->is_object()) {
    out += "  descriptors: at most " + Text(*descriptors, "limit") + ", lanes have " + Text(*descriptors, "lanes") +
           " of " + Text(*descriptors, "lanes_max") + "\n";
  }
  const auto memory = daemon.is_object() ? daemon.find("memory") : daemon.end();
  if (memory != daemon.end() && memory->is_object()) {
    out += "  memory: at most " + Text(*memory, "max") + " bytes;";
    for (const char* use : {"regions", "results", "reorder", "early", "residuals"}) {
      out += std::string(" ") + use + " " + Text(*memory, use);
    }
    out += "\n";
  }
  return out;
}

std::string RenderSecurity(const json& process) {
  const auto security = process.is_object() ? process.find("security") : process.end();
  if (security == process.end() || !security->is_object()) return "";
  if (security->contains("identity")) {
    const auto days = security->find("days_left");
    const bool ended = days != security->end() && days->is_number_integer() && days->get<std::int64_t>() < 0;
    return "  TLS: " + Text(*security, "identity") +
           (ended
                ? ", certificate EXPIRED on " + Text(*security, "until") + ": new connections are refused\n"
                : ", certificate until " + Text(*security, "until") + " (" + Text(*security, "days_left") + " days)\n");
  }
  if (!security->value("insecure", json()).is_boolean() || !security->value("insecure", false)) return "";
  return "  INSECURE: nothing is encrypted, and whoever reaches the port may join\n";
}

std::string RenderUplink(const json& daemon) {
  if (!daemon.is_object() || !daemon.contains("uplink_limit_mbit")) return "";
  return "  uplink: at most " + Text(daemon, "uplink_limit_mbit") + " Mbit/s to other hosts\n";
}

std::string CostText(const json& object, const char* key, const std::string& currency) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g ", found->get<double>());
  return text.data() + currency;
}

// What the master has heard of traffic from site to site; empty for an older one, and where there was none.
std::string RenderTraffic(const json& status, const std::string& currency) {
  const auto traffic = status.find("traffic");
  if (traffic == status.end() || !traffic->is_object()) return "";
  const bool is_priced = currency != "-";
  Row head = {"from site", "to site", "GB sent"};
  if (is_priced) head.emplace_back("cost");
  std::vector<Row> rows = {head};
  const auto add = [&](const std::string& from, const std::string& to, const json& sent) {
    constexpr double kGigabyte = 1e9;
    std::array<char, 32> gigabytes{};
    const auto bytes = sent.find("bytes");
    const double count = bytes != sent.end() && bytes->is_number() ? bytes->get<double>() : 0;
    std::snprintf(gigabytes.data(), gigabytes.size(), "%.3f", count / kGigabyte);
    rows.push_back({from, to, gigabytes.data()});
    if (is_priced) rows.back().push_back(CostText(sent, "cost", currency));
  };
  for (const json& pair : Objects(*traffic, "pairs")) add(Text(pair, "from"), Text(pair, "to"), pair);
  const json rest = traffic->value("rest", json::object());
  if (rest.is_object() && rest.value("bytes", json()).is_number() && rest.value("bytes", 0.0) > 0) {
    add("other", "other", rest);
  }
  if (rows.size() == 1) return "";
  return Table(rows) + (is_priced ? "cost of the last hour " + CostText(*traffic, "cost_hour", currency) + "\n" : "");
}

std::string RenderPairs(const json& group) {
  std::vector<Row> rows = {
      {"to", "peer_id", "lanes_up", "lanes_used", "retransmits", "round_trip_us", "rate_limit_mbit"}};
  for (const json& pair : Objects(group, "pairs")) {
    rows.push_back({Text(pair, "name"), Text(pair, "peer_id"), Text(pair, "lanes_up"), Text(pair, "lanes_used"),
                    Text(pair, "retransmits"), Text(pair, "round_trip_us"), Text(pair, "rate_limit_mbit")});
  }
  return rows.size() > 1 ? Table(rows) : "";
}

std::string RenderGroup(const json& group, const std::string& currency) {
  std::string out = "group " + Text(group, "name") + "  epoch " + Text(group, "epoch") + "  world " +
                    Text(group, "world_size") + "\n  ring " + Ring(group) + "\n";
  std::vector<std::string> keys = {"rank", "ops_open"};
  for (const PeerCountInfo& count : kPeerCounts) keys.emplace_back(count.name);
  keys.emplace_back("waits");
  for (const std::string& key : keys) {
    if (group.contains(key)) out += "  " + key + " " + Text(group, key.c_str()) + "\n";
  }
  const bool master = group.contains("peers");
  if (master && currency != "-") {
    out += "  cost of the last hour " + CostText(group, "cost_hour", currency) + ", of an operation " +
           CostText(group, "cost_operation", currency) + "\n";
  }
  if (master) {
    for (const std::string& sentence : WaitSentences(PeerRows({{"groups", {group}}}))) out += "  " + sentence + "\n";
  }
  Row columns = {"rank", "name", "site", "address", master ? "state" : "peer_id"};
  for (const PeerCountInfo& count : kPeerCounts) {
    if (master && count.in_tables) columns.emplace_back(count.name);
  }
  if (master) columns.emplace_back("why");
  std::vector<Row> rows = {columns};
  std::vector<json> peers = Objects(group, master ? "peers" : "members");
  const auto rank = [](const json& peer) {  // pending peers have none and come last
    const auto found = peer.find("rank");
    return found != peer.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : ~std::uint64_t{0};
  };
  std::stable_sort(peers.begin(), peers.end(), [&](const json& a, const json& b) { return rank(a) < rank(b); });
  for (const json& peer : peers) {
    Row row;
    for (const std::string& column : columns) row.push_back(Text(peer, column.c_str()));
    rows.push_back(std::move(row));
  }
  out += Table(rows);
  return out + RenderPairs(group);
}

}  // namespace

Result<std::string> Render(const std::string& json_text) {
  const json status = ParseStatus(json_text);
  if (!status.is_object()) return Status(Code::kProtocol, "the status is no JSON object");
  std::string out;
  bool stands_by = false;
  if (const auto master = status.find("master"); master != status.end()) {
    stands_by = Text(*master, "role") == "standby";
    if (stands_by) {
      const std::string leader = Text(*master, "leader");
      out += "this master stands by; " + (leader == "-" ? "none is known to lead" : leader + " leads") + "\n";
    }
    out += "master  term " + Text(*master, "term") + "  up " + Text(*master, "uptime_s") + " s  journal " +
           Text(*master, "journal") + "\n" + RenderSecurity(*master);
  }
  if (const auto daemon = status.find("daemon"); daemon != status.end()) {
    out += "daemon " + Text(*daemon, "name") + "  site " + Text(*daemon, "site") + "  address " +
           Text(*daemon, "address") + "  master " + Text(*daemon, "master") + " connected " +
           Text(*daemon, "master_connected") + "\n" +
           (Text(*daemon, "draining") == "true" ? "  an operator takes it out of service: no trainer may join\n" : "") +
           RenderSecurity(*daemon) + RenderUplink(*daemon) + RenderLimits(*daemon) + RenderAdvice(*daemon);
  }
  std::vector<Row> rows = {{"daemon", "site", "address", "version", "connected", "draining", "peers"}};
  for (const json& daemon : Objects(status, "daemons")) {
    rows.push_back({Text(daemon, "name"), Text(daemon, "site"), Text(daemon, "address"), Text(daemon, "version"),
                    Text(daemon, "connected"), Text(daemon, "draining"), Text(daemon, "peers")});
  }
  if (rows.size() > 1) out += Table(rows);
  const std::string currency = Text(status.value("master", json::object()), "currency");
  out += RenderTraffic(status, currency);
  for (const json& group : Objects(status, "groups")) out += RenderGroup(group, currency);
  if (Objects(status, "groups").empty() && !stands_by) out += "no groups\n";
  return out;
}

}  // namespace ringway::ctl
