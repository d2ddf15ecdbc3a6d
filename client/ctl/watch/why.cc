#include "client/ctl/watch/why.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"
#include "proto/printable.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;
using Causes = std::vector<Cause>;

// A trainer that submits later than the first by this and this part of an operation's time is late.
constexpr double kLateMs = 20;
constexpr double kLatePart = 0.2;
// Packets that were sent again, of all.
constexpr double kLossPart = 0.005;
constexpr double kMemoryPart = 0.9;

struct View {
  const json& status;
  json group;
  std::vector<PeerRow> rows;
  bool of_master = false;
};

double NumberOr(const json& object, const char* key, double otherwise) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

bool IsSet(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && *found == json(true);
}

json ProcessOf(const View& view) {
  const auto found = view.status.find(view.of_master ? "master" : "daemon");
  return found != view.status.end() && found->is_object() ? *found : json::object();
}

std::string OnHost(const PeerRow& row) {
  if (row.daemon.empty()) return row.name;
  return row.name + " (rank " + row.rank + ", at daemon " + row.daemon + ")";
}

void AddMaster(const View& view, Causes& out) {
  const json process = ProcessOf(view);
  if (view.of_master) {
    const std::string journal = Printable(Text(process, "journal"));
    if (journal != "ok" && journal != "none" && journal != "-") {
      const bool is_etcd = Text(process, "journal_path").starts_with("etcd://");
      out.push_back({"master away",
                     (is_etcd ? "the master cannot write to etcd, so no group changes: "
                              : "the master cannot write its journal, so no group changes: ") +
                         journal,
                     is_etcd ? "look at etcd and at the network to it: etcdctl endpoint health, on the master's host"
                             : "make room on its disk: df -h, on the master's host"});
    }
    return;
  }
  if (process.contains("master_connected") && !IsSet(process, "master_connected")) {
    const std::string master = Printable(Text(process, "master"));
    const bool is_one = master.find(',') == std::string::npos;
    out.push_back(
        {"master away",
         "this daemon has no connection to the master" + std::string(is_one ? "" : " that leads of those") + " at " +
             master + ": operations go on, but joins and recoveries wait",
         (is_one ? "start ringway-master there"
                 : "ringwayctl --master " + master + " doctor says which of them is away, and whether one leads") +
             std::string("; ringwayctl doctor on this host says what is in the way")});
  }
}

void AddRecovery(const View& view, Causes& out) {
  if (view.of_master ? !IsSet(view.group, "collecting") : !IsSet(view.group, "frozen")) return;
  std::vector<std::string> silent;
  for (const PeerRow& row : view.rows) {
    if (!row.is_online && !row.is_pending) silent.push_back(row.name);
  }
  out.push_back({"recovery",
                 silent.empty()
                     ? "a recovery runs: a peer was lost, and operations stand still until its view is replaced"
                     : "a recovery waits for the daemon of " + Listed(silent) + ", which the master does not hear",
                 silent.empty() ? "wait for it; ringwayctl events says who was lost, and why"
                                : "look at that host; if it is gone for good: ringwayctl evict"});
}

// Whom others wait for, while these wait for nobody themselves, come first: they are what all wait for.
void AddLateTrainers(const View& view, Causes& out) {
  struct Late {
    std::vector<std::string> by;
    std::string what;
    double seconds = 0;
  };
  std::map<std::string, Late> late;
  for (const PeerRow& row : view.rows) {
    for (const std::string& on : row.wait.on) {
      Late& one = late[on];
      one.by.push_back(row.name);
      if (row.wait.seconds < one.seconds) continue;
      one.seconds = row.wait.seconds;
      one.what = row.wait.what;
    }
  }
  Causes chained;
  const double hung_s = NumberOr(view.group, "hung_ms", 0) / 1000;
  for (auto& [name, one] : late) {
    std::sort(one.by.begin(), one.by.end());
    const auto row = std::find_if(view.rows.begin(), view.rows.end(),
                                  [&wanted = name](const PeerRow& r) { return r.name == wanted; });
    const bool is_known = row != view.rows.end();
    std::string what = Listed(one.by) + (one.by.size() == 1 ? " waits" : " wait") + " for operation " + one.what +
                       " for " + AgeText(one.seconds) + ": the trainer of " + (is_known ? OnHost(*row) : name) +
                       " has not submitted it";
    if (is_known && !row->wait.on.empty()) {
      chained.push_back({"trainer late", what + ", for it waits for " + Listed(row->wait.on) + " itself", ""});
      continue;
    }
    if (hung_s > 0) what += "; it is evicted when it submits nothing for " + AgeText(hung_s);
    out.push_back({"trainer late", std::move(what),
                   "look at what its trainer does (py-spy dump --pid PID, or gdb -p PID); ringwayctl evict --group " +
                       Printable(Text(view.group, "name")) + " --peer " + name + " lets the others go on at once"});
  }
  out.insert(out.end(), chained.begin(), chained.end());
}

void AddLateOnAverage(const View& view, Causes& out) {
  for (const PeerRow& row : view.rows) {
    if (!row.late_ms || !row.awaited_by.empty()) continue;
    const double whole = *row.late_ms + row.op_ms.value_or(0);
    if (*row.late_ms < kLateMs || *row.late_ms < kLatePart * whole) continue;
    out.push_back({"trainer late",
                   "the trainer of " + OnHost(row) + " submits about " + NumberText(*row.late_ms) +
                       " ms after the first, and an operation takes " + NumberText(whole) + " ms at that",
                   "give it less to do, or find what slows its host (top, nvidia-smi)"});
  }
}

struct Path {
  std::string from, to;
  double rate_mbit = 0;
  double sent_mbit = 0;
  double resent_part = 0;  // of that
  double load() const { return rate_mbit > 0 && rate_mbit < 1e9 ? sent_mbit / rate_mbit : 0; }
};

double CellOf(const json& paths, const char* key, std::size_t from, std::size_t to) {
  const auto matrix = paths.find(key);
  if (matrix == paths.end() || !matrix->is_array() || from >= matrix->size()) return -1;
  const json& row = (*matrix)[from];
  return row.is_array() && to < row.size() && row[to].is_number() ? row[to].get<double>() : -1;
}

// The paths between ranks, as the master knows them; a daemon knows those from its own.
std::vector<Path> PathsOf(const View& view) {
  std::vector<Path> out;
  const auto paths = view.group.find("paths");
  if (paths != view.group.end() && paths->is_object()) {
    std::vector<std::string> names;
    const auto ranks = paths->find("ranks");
    for (const json& name : ranks != paths->end() && ranks->is_array() ? *ranks : json::array()) {
      names.push_back(name.is_string() ? Printable(name.get<std::string>()) : "-");
    }
    names.resize(std::min<std::size_t>(names.size(), 64));
    for (std::size_t a = 0; a < names.size(); ++a) {
      for (std::size_t b = 0; b < names.size(); ++b) {
        if (a == b) continue;
        out.push_back({names[a], names[b], CellOf(*paths, "rate_mbit", a, b), CellOf(*paths, "sent_mbit", a, b),
                       CellOf(*paths, "resent_part", a, b)});
      }
    }
  }
  for (const json& pair : Objects(view.group, "pairs")) {
    out.push_back({view.rows.empty() ? "" : view.rows.front().name, Printable(Text(pair, "name")),
                   NumberOr(pair, "rate_limit_mbit", 0), NumberOr(pair, "sent_mbit", 0)});
  }
  return out;
}

// The path that carries the largest part of what it is known to carry, among those that carry anything now.
std::optional<Path> BusiestOf(const View& view) {
  std::optional<Path> busiest;
  for (const Path& path : PathsOf(view)) {
    if (path.load() > (busiest ? busiest->load() : 0)) busiest = path;
  }
  return busiest;
}

// Where operations end, and one path is far slower than the others and full.
void AddSlowPath(const View& view, Causes& out) {
  constexpr double kSlowPart = 0.25, kFullPart = 0.5;
  if (std::any_of(out.begin(), out.end(), [](const Cause& cause) { return cause.kind == "line slow"; })) return;
  std::vector<double> rates;
  std::optional<Path> slowest;
  for (const Path& path : PathsOf(view)) {
    if (path.rate_mbit <= 0) continue;
    rates.push_back(path.rate_mbit);
    if (path.load() >= kFullPart && (!slowest || path.rate_mbit < slowest->rate_mbit)) slowest = path;
  }
  if (!slowest) return;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  if (slowest->rate_mbit > kSlowPart * *middle) return;
  double longest = 0;
  for (const PeerRow& row : view.rows) longest = std::max(longest, row.op_ms.value_or(0));
  out.push_back({"line slow",
                 "the path from " + slowest->from + " to " + slowest->to + " carries " +
                     NumberText(slowest->sent_mbit) + " of its " + NumberText(slowest->rate_mbit) +
                     " Mbit/s, and the paths of this group have " + NumberText(*middle) +
                     " in the middle: an operation takes " + NumberText(longest) + " ms",
                 "measure that line (iperf3) and look at what else uses it; ringwayctl plan shows what the plan makes "
                 "of it"});
}

void AddSlowHost(const View& view, Causes& out) {
  const auto slow = view.group.find("slow_host");
  if (slow == view.group.end() || !slow->is_object()) return;
  out.push_back(
      {"line slow",
       "the line of " + Printable(Text(*slow, "name")) + " makes large operations take " +
           NumberText(NumberOr(*slow, "ratio", 1)) + " times as long as they would without that host",
       "measure that line (iperf3) and look at what else uses it, or train without that host: ringwayctl plan "
       "shows the rates"});
}

void AddSlowLine(const View& view, Causes& out) {
  std::vector<std::string> waiting;
  double seconds = 0;
  std::string what;
  double sent = 0;
  for (const PeerRow& row : view.rows) {
    sent += row.sent_mbit.value_or(0);
    if (row.wait.what.empty() || !row.wait.on.empty() || row.wait.reason != "data") continue;
    waiting.push_back(row.name);
    if (row.wait.seconds < seconds) continue;
    seconds = row.wait.seconds;
    what = row.wait.what;
  }
  if (waiting.empty()) return;
  std::string text = "all have submitted " + what + ", which has taken " + AgeText(seconds) + " so far at " +
                     Listed(waiting) + " and needs data";
  const std::optional<Path> path = BusiestOf(view);
  if (path) {
    text += "; nearest to its limit is the path from " + path->from + " to " + path->to + ": it carries " +
            NumberText(path->sent_mbit) + " of " + NumberText(path->rate_mbit) + " Mbit/s";
  } else if (sent == 0) {
    text += "; in the last seconds nothing was sent";
  }
  out.push_back({"line slow", std::move(text),
                 path
                     ? "if the line ought to carry more, measure it (iperf3) and look at what else uses it; ringwayctl "
                       "plan shows what the plan assumes"
                     : "ringwayctl doctor on these hosts looks at their lines"});
}

void AddLosses(const View& view, Causes& out) {
  constexpr double kPacketBytes = 1448;
  const double sent = NumberOr(view.group, "bytes_sent", 0);
  double again = 0;
  std::string worst;
  double most = 0;
  for (const json& pair : Objects(view.group, "pairs")) {
    const double of_pair = NumberOr(pair, "retransmits", 0);
    again += of_pair;
    if (of_pair > most) worst = Printable(Text(pair, "name"));
    most = std::max(most, of_pair);
  }
  if (sent > 0 && again * kPacketBytes > kLossPart * sent) {
    out.push_back(
        {"losses",
         NumberText(again * kPacketBytes / sent * 100) + "% of what this daemon has sent to the group was " +
             "sent again, most of it to " + worst,
         "ask the network's operator about that path; ringwayctl doctor tells whether this host may use bbr"});
  }
  std::optional<Path> lossy;
  for (const Path& path : PathsOf(view)) {
    constexpr double kLeastMbit = 1;  // of less, a packet is a large part
    if (path.sent_mbit < kLeastMbit || path.resent_part <= kLossPart || path.resent_part > 1) continue;
    if (!lossy || path.resent_part > lossy->resent_part) lossy = path;
  }
  if (lossy) {
    out.push_back(
        {"losses",
         NumberText(lossy->resent_part * 100) + "% of what " + lossy->from + " sends to " + lossy->to +
             " now is sent again, as packets get lost",
         "ask the network's operator about that path; ringwayctl doctor on these hosts tells whether they may "
         "use bbr"});
  }
  for (const PeerRow& row : view.rows) {
    if (row.lanes_lost <= 0 || row.resent <= 0) continue;
    out.push_back({"losses",
                   "connections of " + OnHost(row) + " have broken " + NumberText(row.lanes_lost) + " times, and " +
                       NumberText(row.resent) + " segments were sent again",
                   "look for what ends its connections: a firewall, or an address translator, with a short memory"});
  }
}

void AddMemory(const View& view, Causes& out) {
  const auto consider = [&](const std::string& name, double used, double max) {
    if (max <= 0 || max > 1e18 || used < kMemoryPart * max) return;
    out.push_back({"memory",
                   "daemon " + name + " has " + NumberText(used / 1e6) + " of its " + NumberText(max / 1e6) +
                       " MB of memory in use: what comes early finds no room, and is sent again",
                   "start it with more --memory-max, or have fewer trainers on that host"});
  };
  for (const json& daemon : Objects(view.status, "daemons")) {
    const std::string name = Printable(Text(daemon, "name"));
    const bool is_here =
        std::any_of(view.rows.begin(), view.rows.end(), [&](const PeerRow& r) { return r.daemon == name; });
    if (is_here) consider(name, NumberOr(daemon, "memory_used", 0), NumberOr(daemon, "memory_max", 0));
    if (is_here && IsSet(daemon, "draining")) {
      out.push_back({"drain", "an operator takes daemon " + name + " out of service: its trainers leave", ""});
    }
  }
  if (view.of_master) return;
  const json process = ProcessOf(view);
  const auto memory = process.find("memory");
  if (memory == process.end() || !memory->is_object()) return;
  double used = 0;
  for (const auto& [use, bytes] : memory->items()) used += use != "max" && bytes.is_number() ? bytes.get<double>() : 0;
  consider(Printable(Text(process, "name")), used, NumberOr(*memory, "max", 0));
}

void AddJoins(const View& view, Causes& out) {
  const bool is_formed = NumberOr(view.group, "world_size", 0) > 0;
  for (const PeerRow& row : view.rows) {
    if (!row.is_pending) continue;
    out.push_back({"join waits",
                   row.name + " is not in the group yet" + (row.why_pending.empty() ? "" : ": " + row.why_pending),
                   is_formed ? "newcomers are let in when all members call UpdateView (or Advance) after an operation"
                             : "start the trainers that are missing; ringwayctl doctor on their hosts says why they "
                               "do not come"});
  }
  const double world = NumberOr(view.group, "world_size", 0), least = NumberOr(view.group, "min_world", 0);
  if (is_formed && world < least) {
    out.push_back({"too small",
                   "the group has " + NumberText(world) + " peers and needs " + NumberText(least) + " (min_world)",
                   "start trainers; the members let them in by UpdateView"});
  }
  const std::string prepared = Text(view.group, "prepared");
  if (prepared == "-") return;
  out.push_back(
      {"plan",
       "view " + Printable(prepared) + ", with newcomers or a better plan, waits until all members call UpdateView",
       "trainers call UpdateView (or Advance) where a result says update_waits; nothing stands still for it"});
}

// In a few words, whether it goes and how fast.
std::string StateOf(const View& view) {
  const auto busy = std::find_if(view.rows.begin(), view.rows.end(),
                                 [](const PeerRow& row) { return row.ops_per_s.value_or(0) > 0; });
  const std::string head = "group " + Printable(Text(view.group, "name")) + "  epoch " +
                           Printable(Text(view.group, "epoch")) + "  world " +
                           Printable(Text(view.group, "world_size"));
  if (busy == view.rows.end()) return head + "  no operation has ended in the last seconds";
  double longest = 0;
  for (const PeerRow& row : view.rows) longest = std::max(longest, row.op_ms.value_or(0));
  return head + "  " + NumberText(busy->ops_per_s) + " operations a second of " + NumberText(longest) + " ms";
}

Result<View> ViewOf(const json& status, const std::string& group) {
  for (const json& one : Objects(status, "groups")) {
    if (Text(one, "name") != group) continue;
    return View{.status = status, .group = one, .rows = PeerRows(status, group), .of_master = one.contains("peers")};
  }
  return Status(Code::kInvalidArgument, "there is no group " + group + " here: see ringwayctl status");
}

Causes CausesOf(const View& view) {
  Causes out;
  for (const auto add : {AddMaster, AddRecovery, AddLateTrainers, AddSlowLine, AddSlowHost, AddMemory, AddLosses,
                         AddSlowPath, AddLateOnAverage, AddJoins}) {
    add(view, out);
  }
  return out;
}

}  // namespace

Result<Causes> WhyOf(const json& status, const std::string& group) {
  const Result<View> view = ViewOf(status, group);
  if (!view.ok()) return view.status();
  return CausesOf(view.value());
}

Result<std::string> RenderWhy(const std::string& status_json, const std::string& group, bool as_json) {
  const json status = ParseStatus(status_json);
  if (!status.is_object()) return Status(Code::kProtocol, "the status is no JSON object");
  const Result<View> view = ViewOf(status, group);
  if (!view.ok()) return view.status();
  const Causes causes = CausesOf(view.value());
  const std::string state = StateOf(view.value());
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Cause& cause : causes) {
      list.push_back({{"kind", cause.kind}, {"what", cause.what}, {"remedy", cause.remedy}});
    }
    const nlohmann::ordered_json out = {{"group", group}, {"state", state}, {"causes", std::move(list)}};
    return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  constexpr std::size_t kKindWidth = 14;
  std::string out = state + "\n";
  if (causes.empty()) out += "nothing is seen that holds it up\n";
  for (const Cause& cause : causes) {
    std::string kind = cause.kind;
    kind.resize(std::max(kind.size(), kKindWidth), ' ');
    out += kind + cause.what + "\n";
    if (!cause.remedy.empty()) out += "  -> " + cause.remedy + "\n";
  }
  return out;
}

}  // namespace ringway::ctl
