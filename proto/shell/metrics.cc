#include "proto/shell/metrics.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "proto/duration_counts.h"
#include "proto/peer_counts.h"

namespace ringway::shell {
namespace {

using nlohmann::json;
using Labels = std::vector<std::pair<std::string, std::string>>;

constexpr double kMega = 1e6;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// The text, a metric's samples together as the format wants them.
class Metrics {
 public:
  void Gauge(const std::string& name, const std::string& help, const Labels& labels, double value) {
    Add(name, "gauge", help, labels, value);
  }
  void Counter(const std::string& name, const std::string& help, const Labels& labels, double value) {
    Add(name + "_total", "counter", help, labels, value);
  }
  // `counts`: by the bounds of DurationCounts; others are left out.
  void Histogram(const std::string& name, const std::string& help, const Labels& labels, const json& counts,
                 double sum) {
    if (!counts.is_array() || counts.size() != DurationCounts::kBounds + 1) return;
    double below = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      below += counts[i].is_number() ? counts[i].get<double>() : 0;
      const double bound =
          i < DurationCounts::kBounds ? std::chrono::duration<double>(DurationCounts::Bound(i)).count() : 0;
      Labels bucket = labels;
      bucket.emplace_back("le", i < DurationCounts::kBounds ? json(bound).dump() : "+Inf");
      Add(name, "histogram", help, bucket, below, "_bucket");
    }
    Add(name, "histogram", help, labels, sum, "_sum");
    Add(name, "histogram", help, labels, below, "_count");
  }
  std::string Text() const {
    std::string out;
    for (const auto& [name, metric] : metrics_) {
      out.append("# HELP ").append(name).append(" ").append(metric.help).append("\n# TYPE ").append(name);
      out.append(" ").append(metric.type).append("\n").append(metric.samples);
    }
    return out;
  }

 private:
  struct Metric {
    std::string type, help, samples;
  };

  void Add(const std::string& name, const char* type, const std::string& help, const Labels& labels, double value,
           const std::string& suffix = "") {
    Metric& metric = metrics_["ringway_" + name];
    metric.type = type;
    metric.help = help;
    std::string text;
    for (const auto& [label, is] : labels) text += (text.empty() ? "" : ",") + label + "=\"" + Escaped(is) + "\"";
    metric.samples +=
        "ringway_" + name + suffix + (text.empty() ? "" : "{" + text + "}") + " " + json(value).dump() + "\n";
  }

  std::map<std::string, Metric> metrics_;
};

// 0 for what is no number.
double Number(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) return 0;
  if (found->is_boolean()) return found->get<bool>() ? 1 : 0;
  return found->is_number() ? found->get<double>() : 0;
}

std::string Word(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

json Part(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? json() : *found;
}

void AddProcess(const json& process, const std::string& role, Metrics& out) {
  out.Gauge("info", "What runs here.", {{"role", role}, {"version", Word(process, "version")}}, 1);
  const json security = Part(process, "security");
  out.Gauge("insecure", "1: nothing is encrypted, and whoever reaches the port may join.", {},
            Number(security, "insecure"));
  if (security.contains("days_left")) {
    out.Gauge("certificate_days_left", "Days until the certificates end.", {}, Number(security, "days_left"));
  }
}

void AddDaemon(const json& daemon, Metrics& out) {
  AddProcess(daemon, "daemon", out);
  out.Gauge("master_connected", "Whether there is a connection to the master.", {}, Number(daemon, "master_connected"));
  out.Gauge("draining", "1: an operator has taken the daemon out of service.", {}, Number(daemon, "draining"));
  const json memory = Part(daemon, "memory");
  out.Gauge("memory_max_bytes", "Memory for trainers' regions and what is kept for them.", {}, Number(memory, "max"));
  for (const auto& [use, bytes] : memory.items()) {
    if (use != "max") out.Gauge("memory_bytes", "Memory in use.", {{"use", use}}, Number(memory, use.c_str()));
  }
  const json descriptors = Part(daemon, "descriptors");
  out.Gauge("lanes", "Lanes that are open.", {}, Number(descriptors, "lanes"));
  out.Gauge("lanes_max", "Lanes that the limit of descriptors allows.", {}, Number(descriptors, "lanes_max"));
  out.Gauge("connections_kept", "Connections of lanes that have ended, kept for later ones.", {},
            Number(descriptors, "kept"));
}

void AddMaster(const json& master, const json& daemons, Metrics& out) {
  AddProcess(master, "master", out);
  out.Gauge("leads", "Whether it leads; 0: it stands by.", {}, Word(master, "role") == "standby" ? 0 : 1);
  out.Gauge("term", "Of this life of the master.", {}, Number(master, "term"));
  out.Gauge("uptime_seconds", "Since it was started.", {}, Number(master, "uptime_s"));
  out.Gauge("journal_ok", "Whether changes can be written.", {}, Word(master, "journal") == "ok" ? 1 : 0);
  out.Counter("contradictions", "Reports that cannot all be true: faults.", {}, Number(master, "contradictions"));
  out.Counter("ignored_messages", "Late or forged words of daemons.", {}, Number(master, "ignored_messages"));
  double connected = 0;
  for (const json& daemon : daemons) connected += Number(daemon, "connected");
  out.Gauge("daemons_connected", "Daemons with a connection.", {}, connected);
}

void AddCounts(const json& peer, const Labels& labels, Metrics& out) {
  for (const PeerCountInfo& count : kPeerCounts) {
    const std::string name(count.name);
    if (peer.contains(name)) out.Counter(name, std::string(count.help), labels, Number(peer, name.c_str()));
  }
}

void AddDurations(const json& durations, const Labels& labels, Metrics& out) {
  for (const PeerDurationInfo& each : kPeerDurations) {
    const json one = Part(durations, std::string(each.name).c_str());
    out.Histogram(std::string(each.name) + "_seconds", std::string(each.help), labels, Part(one, "counts"),
                  Number(one, "sum_us") / kMega);
  }
}

// The epoch "term.counter".
void AddEpoch(const json& group, const Labels& labels, Metrics& out) {
  const std::string epoch = Word(group, "epoch");
  const std::size_t dot = epoch.find('.');
  if (dot == std::string::npos) return;
  const json counter = json::parse(epoch.substr(dot + 1), nullptr, false);
  if (counter.is_number()) out.Gauge("group_epoch", "Views of the group so far.", labels, counter.get<double>());
}

void AddPairs(const json& group, const Labels& of_group, Metrics& out) {
  std::map<std::string, std::string> ranks;
  for (const json& member : Part(group, "members")) ranks[Word(member, "peer_id")] = Word(member, "rank");
  for (const json& pair : Part(group, "pairs")) {
    const auto rank = ranks.find(Word(pair, "peer_id"));
    if (rank == ranks.end()) continue;  // a newcomer
    Labels labels = of_group;
    labels.emplace_back("to_rank", rank->second);
    out.Gauge("path_lanes", "Lanes that are up.", labels, Number(pair, "lanes_up"));
    out.Gauge("path_lanes_used", "Lanes that are of use.", labels, Number(pair, "lanes_used"));
    out.Counter("path_retransmits", "Packets that TCP sent again.", labels, Number(pair, "retransmits"));
    out.Gauge("path_round_trip_seconds", "The shortest; 0: not known.", labels, Number(pair, "round_trip_us") / kMega);
    out.Gauge("path_rate_limit_bits_per_second", "0: nothing paces it.", labels,
              Number(pair, "rate_limit_mbit") * kMega);
  }
}

// What daemons have sent from site to site, as the master has heard.
void AddTraffic(const json& traffic, const std::string& currency, Metrics& out) {
  if (!traffic.is_object()) return;
  const auto add = [&](const std::string& from, const std::string& to, const json& sent) {
    Labels labels = {{"from_site", from}, {"to_site", to}};
    out.Counter("site_bytes", "Sent on lanes from site to site; * is what has no place.", labels,
                Number(sent, "bytes"));
    if (currency.empty()) return;
    labels.emplace_back("currency", currency);
    out.Counter("site_cost", "What that has cost, by --price.", labels, Number(sent, "cost"));
  };
  for (const json& pair : Part(traffic, "pairs")) add(Word(pair, "from"), Word(pair, "to"), pair);
  const json rest = Part(traffic, "rest");
  if (Number(rest, "bytes") > 0) add("*", "*", rest);
  if (currency.empty()) return;
  out.Gauge("cost_last_hour", "What traffic has cost in the last hour.", {{"currency", currency}},
            Number(traffic, "cost_hour"));
}

void AddCost(const json& group, Labels labels, const std::string& currency, Metrics& out) {
  if (currency.empty()) return;
  labels.emplace_back("currency", currency);
  out.Gauge("group_cost_last_hour", "What the group's traffic has cost in the last hour.", labels,
            Number(group, "cost_hour"));
  if (!Part(group, "cost_operation").is_number()) return;
  out.Gauge("group_cost_per_operation", "The same, by operation.", labels, Number(group, "cost_operation"));
}

void AddGroup(const json& group, const std::string& currency, Metrics& out) {
  Labels labels = {{"group", Word(group, "name")}};
  const json peers = Part(group, "peers");
  if (peers.is_array()) {  // a master's
    out.Gauge("group_world_size", "Ranks in the view.", labels, Number(group, "world_size"));
    out.Gauge("group_recovering", "Whether reports of a recovery are awaited.", labels, Number(group, "collecting"));
    AddEpoch(group, labels, out);
    AddCost(group, labels, currency, out);
    double pending = 0;
    for (const json& peer : peers) pending += Word(peer, "state") == "pending" ? 1 : 0;
    out.Gauge("group_pending", "Peers that wait to be let in.", labels, pending);
    return;
  }
  const std::string rank = Word(group, "rank");
  if (rank.empty()) return;  // it is in no view yet, as others of its group may be: their series would be the same
  labels.emplace_back("rank", rank);
  out.Gauge("group_world_size", "Ranks in the view.", labels, Number(group, "world_size"));
  out.Gauge("group_frozen", "Whether a recovery is under way.", labels, Number(group, "frozen"));
  out.Gauge("ops_open", "Operations in flight.", labels, Number(group, "ops_open"));
  AddEpoch(group, labels, out);
  AddCounts(group, labels, out);
  AddDurations(Part(group, "durations"), labels, out);
  AddPairs(group, labels, out);
}

Result<json> Parsed(const std::string& status_json) {
  json status = json::parse(status_json, nullptr, false);
  if (!status.is_object() || (!status.contains("daemon") && !status.contains("master"))) {
    return Status(Code::kProtocol, "the status is neither a master's nor a daemon's");
  }
  return status;
}

}  // namespace

Result<std::string> MetricsOf(const std::string& status_json) {
  const Result<json> status = Parsed(status_json);
  if (!status.ok()) return status.status();
  Metrics out;
  const json daemons = Part(status.value(), "daemons");
  if (status.value().contains("daemon")) AddDaemon(status.value()["daemon"], out);
  if (status.value().contains("master")) AddMaster(status.value()["master"], daemons, out);
  const std::string currency = Word(Part(status.value(), "master"), "currency");
  AddTraffic(Part(status.value(), "traffic"), currency, out);
  const json groups = Part(status.value(), "groups");
  std::size_t count = 0;
  for (const json& group : groups) {
    if (count++ < kMetricGroupsMax) AddGroup(group, currency, out);
  }
  out.Gauge("groups", "Groups, or peers of this daemon.", {}, static_cast<double>(count));
  const double beyond = count > kMetricGroupsMax ? static_cast<double>(count - kMetricGroupsMax) : 0;
  const json master = Part(status.value(), "master");
  out.Gauge("groups_left_out", "Of which nothing is said here.", {}, beyond + Number(master, "left_out"));
  return out.Text();
}

Status ReadinessOf(const std::string& status_json) {
  const Result<json> status = Parsed(status_json);
  if (!status.ok()) return status.status();
  const json daemon = Part(status.value(), "daemon");
  if (daemon.is_object() && Number(daemon, "master_connected") == 0) {
    return {Code::kMasterUnreachable, "no connection to the master at " + Word(daemon, "master")};
  }
  if (Number(daemon, "draining") != 0) return {Code::kShuttingDown, "an operator has taken it out of service"};
  const std::string journal = Word(Part(status.value(), "master"), "journal");
  if (!journal.empty() && journal != "ok" && journal != "none")
    return {Code::kIo, "the journal cannot be written: " + journal};
  return Status::Ok();
}

}  // namespace ringway::shell
