#include "client/ctl/watch/top.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;
using Cells = std::vector<std::string>;

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kReverse = "\x1b[7m";
constexpr const char* kPlain = "\x1b[0m";

// How much a peer hurts its group, in an order: whom others wait for, who is not there, who is late, whose lines break.
double Hurt(const PeerRow& row) {
  constexpr double kAwaited = 1e9, kOffline = 1e8, kPending = 1e7, kPerLane = 10;
  return (row.wait.on.empty() ? 1.0 : 0.5) * kAwaited * static_cast<double>(row.awaited_by.size()) +
         (row.is_online ? 0 : kOffline) + (row.is_pending ? kPending : 0) + row.late_ms.value_or(0) +
         kPerLane * row.lanes_lost;
}

// Beyond what is noise.
bool Hurts(const PeerRow& row) {
  constexpr double kLateMs = 20, kLatePart = 0.2;
  const double late = row.late_ms.value_or(0);
  return !row.awaited_by.empty() || !row.is_online ||
         (late > kLateMs && late > kLatePart * (late + row.op_ms.value_or(0)));
}

std::string NoteOf(const PeerRow& row) {
  if (!row.awaited_by.empty())
    return Listed(row.awaited_by) + (row.awaited_by.size() == 1 ? " waits" : " wait") + " for it";
  if (!row.is_online) return "the master does not hear its daemon";
  if (row.is_pending) return "not in yet" + (row.why_pending.empty() ? "" : ": " + row.why_pending);
  if (row.wait.what.empty()) return Hurts(row) ? "submits late" : "";
  return row.wait.what + " waits " + AgeText(row.wait.seconds) + " for " +
         (row.wait.on.empty() ? row.wait.reason : Listed(row.wait.on));
}

void Sort(std::vector<PeerRow>& rows, TopSort sort) {
  const auto key = [sort](const PeerRow& row) {
    switch (sort) {
      case TopSort::kHurts:
        return -Hurt(row);
      case TopSort::kTime:
        return -row.op_ms.value_or(0);
      case TopSort::kSent:
        return -row.sent_mbit.value_or(0);
      case TopSort::kName:
        break;
    }
    return 0.0;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const PeerRow& a, const PeerRow& b) {
    const double left = key(a), right = key(b);
    return left != right ? left < right : std::tie(a.group, a.name) < std::tie(b.group, b.name);
  });
}

Cells CellsOf(const PeerRow& row) {
  return {row.group,
          row.rank,
          row.name,
          row.site.empty() ? "-" : row.site,
          NumberText(row.ops_per_s),
          NumberText(row.op_ms),
          NumberText(row.late_ms),
          NumberText(row.sent_mbit),
          NumberText(row.resent),
          NumberText(row.lanes_lost),
          NoteOf(row)};
}

// As many characters as fit, none cut in two.
std::string Fitted(const std::string& line, std::size_t width) {
  std::size_t shown = 0, at = 0;
  while (at < line.size()) {
    std::size_t next = at + 1;
    while (next < line.size() && (static_cast<unsigned char>(line[next]) & 0xC0) == 0x80) ++next;
    if (shown == width) break;
    ++shown;
    at = next;
  }
  return line.substr(0, at);
}

std::string Header(const json& status, const std::vector<PeerRow>& rows, const TopView& view) {
  std::map<std::string, double> speeds;
  double sent = 0;
  for (const PeerRow& row : rows) {
    double& speed = speeds[row.group];
    speed = std::max(speed, row.ops_per_s.value_or(0));
    sent += row.sent_mbit.value_or(0);
  }
  double ops = 0;
  for (const auto& [group, speed] : speeds) ops += speed;
  const bool is_master = status.contains("master");
  return std::string(is_master ? "master" : "daemon") + "  " + std::to_string(speeds.size()) + " groups, " +
         std::to_string(rows.size()) + " peers  " + NumberText(ops) + " operations/s  " + NumberText(sent) +
         " Mbit/s sent  sorted by " + kTopSortNames[static_cast<std::size_t>(view.sort)] +
         (view.paused ? "  PAUSED" : "");
}

constexpr const char* kHelp =
    "  ops/s     operations that ended well, a second          op ms   mean time of its newest operations\n"
    "  late ms   by how much it submits after the first        sent    Mbit/s to all others, on lanes\n"
    "  resent    segments sent again because a lane broke      lanes   lanes that broke\n"
    "  what hurts comes first: whom others wait for, who is not heard, who submits late, whose lanes break\n";
constexpr const char* kKeys = "q quit  s sort  up/down scroll  space pause  h explain";

}  // namespace

const CLI::App* AddTop(CLI::App& app, TopOrder* order) {
  CLI::App* top = app.add_subcommand("top", "a live table of the peers, whoever hurts the others most first");
  top->add_option("--group", order->group, "only peers of this group; by default all");
  top->add_option("--interval-ms", order->interval_ms, "pause between two tables")
      ->default_str(std::to_string(order->interval_ms) + " ms")
      ->check(CLI::Range(100, 60'000));
  top->add_option("--count", order->count, "tables (default: on a terminal until q, else one)")
      ->check(CLI::Range(1, 1'000'000));
  return top;
}

Result<std::string> TopPicture(const std::string& status_json, const std::string& group, const TopView& view) {
  const json status = ParseStatus(status_json);
  if (!status.is_object() || (!status.contains("master") && !status.contains("daemon"))) {
    return Status(Code::kProtocol, "the status is neither a master's nor a daemon's");
  }
  std::vector<PeerRow> rows = PeerRows(status, group);
  const std::string header = Header(status, rows, view);
  Sort(rows, view.sort);
  std::vector<Cells> cells = {
      {"group", "rank", "name", "site", "ops/s", "op ms", "late ms", "sent", "resent", "lanes", "what hurts"}};
  for (const PeerRow& row : rows) cells.push_back(CellsOf(row));
  std::vector<std::string> lines;
  const std::string table = Table(cells);
  for (std::size_t at = 0; at < table.size();) {
    const std::size_t end = table.find('\n', at);
    lines.push_back(Fitted(table.substr(at, end - at), view.width));
    at = end + 1;
  }
  const auto style = [&](const char* code, const std::string& line) {
    return view.is_terminal ? code + line + kPlain + "\n" : line + "\n";
  };
  std::string out = style(kBold, Fitted(header, view.width)) + style(kReverse, lines.front());
  const std::size_t first = std::min(view.first, rows.size());
  for (std::size_t i = first; i < std::min(rows.size(), first + view.rows_max); ++i) {
    out += Hurts(rows[i]) ? style(kBold, lines[i + 1]) : lines[i + 1] + "\n";
  }
  const std::size_t below = rows.size() - std::min(rows.size(), first + view.rows_max);
  if (below > 0) out += "  " + std::to_string(below) + " more below\n";
  if (view.help || !view.is_terminal) out += kHelp;
  return view.is_terminal ? out + Fitted(kKeys, view.width) + "\n" : out;
}

}  // namespace ringway::ctl
