#include "client/ctl/watch/peer_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "client/ctl/table.h"
#include "proto/printable.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;

std::optional<double> NumberAt(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

bool IsFalse(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && *found == json(false);
}

json ObjectAt(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : json::object();
}

PeerWait WaitOf(const json& live) {
  constexpr std::size_t kNamesMax = 64;
  PeerWait wait;
  const json object = ObjectAt(live, "wait");
  wait.what = PrintableAt(object, "what");
  wait.seconds = NumberAt(object, "age_ms").value_or(0) / 1000;
  wait.reason = PrintableAt(object, "reason");
  const auto on = object.find("on");
  if (on == object.end() || !on->is_array()) return wait;
  for (const json& name : *on) {
    if (name.is_string() && wait.on.size() < kNamesMax) wait.on.push_back(Printable(name.get<std::string>()));
  }
  return wait;
}

// `peer`: of a master's group, or a daemon's group, which is its own peer.
void AddLive(const json& peer, PeerRow& row) {
  const json live = ObjectAt(peer, "live");
  row.ops_per_s = NumberAt(live, "ops_per_s");
  row.op_ms = NumberAt(live, "op_ms");
  row.sent_mbit = NumberAt(live, "sent_mbit");
  row.retried = NumberAt(peer, "ops_retried").value_or(0);
  row.failed = NumberAt(peer, "ops_failed").value_or(0);
  row.lanes_lost = NumberAt(peer, "lanes_lost").value_or(0);
  row.resent = NumberAt(peer, "segments_resent").value_or(0);
  row.wait = WaitOf(live);
}

std::string RankOf(const json& peer) {
  const auto rank = NumberAt(peer, "rank");
  return rank ? std::to_string(static_cast<std::int64_t>(*rank)) : "-";
}

std::string NameOf(const json& peer) {
  const std::string name = PrintableAt(peer, "name");
  return name.empty() ? "peer " + Text(peer, "peer_id") : name;
}

PeerRow RowOfPeer(const json& group, const json& peer) {
  PeerRow row;
  row.group = PrintableAt(group, "name");
  row.name = NameOf(peer);
  row.site = PrintableAt(peer, "site");
  row.daemon = PrintableAt(peer, "daemon");
  row.rank = RankOf(peer);
  row.is_pending = PrintableAt(peer, "state") == "pending";
  row.why_pending = PrintableAt(peer, "why");
  row.is_online = !IsFalse(peer, "online");
  AddLive(peer, row);
  return row;
}

// The peer of this daemon.
PeerRow RowOfOwn(const json& group) {
  PeerRow row;
  row.group = PrintableAt(group, "name");
  row.rank = RankOf(group);
  row.is_pending = row.rank == "-";
  row.name = "peer " + Text(group, "self");
  for (const json& member : Objects(group, "members")) {
    if (Text(member, "peer_id") != Text(group, "self")) continue;
    row.name = NameOf(member);
    row.site = PrintableAt(member, "site");
  }
  AddLive(group, row);
  return row;
}

// Who submits last has the shortest operations. Only where all ranks say how long theirs take, and do any.
void AddLateness(std::vector<PeerRow>::iterator begin, std::vector<PeerRow>::iterator end) {
  double longest = 0;
  std::size_t members = 0;
  for (auto row = begin; row != end; ++row) {
    if (row->is_pending) continue;
    if (row->op_ms.value_or(0) <= 0 || row->ops_per_s.value_or(0) <= 0) return;
    longest = std::max(longest, *row->op_ms);
    ++members;
  }
  if (members < 2) return;
  for (auto row = begin; row != end; ++row) {
    if (!row->is_pending) row->late_ms = longest - *row->op_ms;
  }
}

}  // namespace

std::vector<PeerRow> PeerRows(const json& status, const std::string& group) {
  std::vector<PeerRow> rows;
  for (const json& one : Objects(status, "groups")) {
    if (!group.empty() && PrintableAt(one, "name") != group) continue;
    const auto begin = static_cast<std::ptrdiff_t>(rows.size());
    if (!one.contains("peers") && rows.size() < kPeersMax) rows.push_back(RowOfOwn(one));
    for (const json& peer : Objects(one, "peers")) {
      if (rows.size() < kPeersMax) rows.push_back(RowOfPeer(one, peer));
    }
    if (one.contains("peers")) AddLateness(rows.begin() + begin, rows.end());
  }
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) places.try_emplace({rows[i].group, rows[i].name}, i);
  for (const PeerRow& row : rows) {
    for (const std::string& on : row.wait.on) {
      const auto found = places.find({row.group, on});
      if (found != places.end()) rows[found->second].awaited_by.push_back(row.name);
    }
  }
  for (PeerRow& row : rows) std::sort(row.awaited_by.begin(), row.awaited_by.end());
  return rows;
}

std::vector<std::string> WaitSentences(const std::vector<PeerRow>& rows) {
  struct Who {
    std::vector<std::string> names;
    double seconds = 0;
  };
  std::map<std::pair<std::string, std::string>, Who> waiting;  // by for whom, and what
  for (const PeerRow& row : rows) {
    if (row.wait.what.empty()) continue;
    Who& who = waiting[{row.wait.on.empty() ? row.wait.reason : Listed(row.wait.on), row.wait.what}];
    who.names.push_back(row.name);
    who.seconds = std::max(who.seconds, row.wait.seconds);
  }
  std::vector<std::string> out;
  for (auto& [key, who] : waiting) {
    std::sort(who.names.begin(), who.names.end());
    out.push_back(Listed(who.names) + (who.names.size() == 1 ? " waits for " : " wait for ") + key.first + ": " +
                  key.second + ", " + AgeText(who.seconds));
  }
  return out;
}

std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= kNamed ? out : out + " and " + std::to_string(names.size() - kNamed) + " more";
}

std::string AgeText(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  if (seconds >= 2 * kHour) return std::to_string(static_cast<int>(seconds / kHour)) + " h";
  if (seconds >= 2 * kMinute) return std::to_string(static_cast<int>(seconds / kMinute)) + " min";
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string NumberText(const std::optional<double>& number) {
  if (!number || !std::isfinite(*number)) return "-";
  const double size = std::abs(*number);
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", size == 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2, *number);
  return text;
}

std::string PrintableAt(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? Printable(found->get<std::string>()) : "";
}

}  // namespace ringway::ctl
