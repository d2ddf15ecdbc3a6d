#include "client/ctl/trace/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "client/ctl/table.h"
#include "client/ctl/trace/chrome_json.h"
#include "client/ctl/watch/peer_rows.h"
#include "client/ctl/watch/source.h"
#include "proto/flight/reader.h"
#include "proto/printable.h"

namespace ringway::ctl {
namespace {

constexpr std::uint64_t kFileBytesMax = flight::ImageBytes(flight::kNamesMax, flight::kRecordsMax);

Result<flight::Log> LogOf(const std::string& image, const std::string& daemon) {
  if (image.empty()) {
    return Status(Code::kNotSupported, daemon + " records nothing: start it without --flight-file none");
  }
  Result<flight::Log> log = flight::Read(std::as_bytes(std::span(image)));
  if (!log.ok()) return Status(log.status().code(), daemon + ": " + log.status().text());
  return log;
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Status(Code::kIo, "cannot open " + path + ": " + std::strerror(errno));
  const std::streamoff bytes = file.tellg();
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > kFileBytesMax)
    return Status(Code::kInvalidArgument, path + " is no file of a flight recorder: it is too large");
  std::string image(static_cast<std::size_t>(bytes), '\0');
  file.seekg(0);
  if (!file.read(image.data(), bytes)) return Status(Code::kIo, "cannot read " + path);
  return image;
}

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (file) return Status::Ok();
  return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno) + "; give another with -o"};
}

std::string Summary(const Trace& trace, const std::string& out) {
  std::size_t records = 0;
  std::uint64_t error_us = 0, left_out = 0;
  for (const HostTrace& host : trace.hosts) {
    left_out += std::min<std::uint64_t>(host.log.left_out, flight::kRecordsMax);
    records += host.log.records.size();
    error_us = std::max(error_us, host.error_us.value_or(0));
  }
  std::string text = out + ": " + std::to_string(records) + " records of " + std::to_string(trace.hosts.size()) +
                     (trace.hosts.size() == 1 ? " daemon" : " daemons");
  if (error_us > 0) text += ", clocks within " + NumberText(static_cast<double>(error_us) / 1000) + " ms";
  text += "; open it at https://ui.perfetto.dev\n";
  if (left_out > 0) text += std::to_string(left_out) + " older records had no room: take a smaller --last\n";
  for (const MissingHost& host : trace.missing) text += "without daemon " + host.daemon + ": " + host.why + "\n";
  return text;
}

Result<std::string> Written(const Trace& trace, const TraceOrder& order) {
  if (Status status = WriteFile(order.out, ChromeJson(trace)); !status.ok()) return status;
  return Summary(trace, order.out);
}

Result<std::string> WrittenOfOne(const std::string& image, const std::string& whose, const TraceOrder& order) {
  Result<flight::Log> log = LogOf(image, whose);
  if (!log.ok()) return log.status();
  const auto is_of_group = [&](const flight::Record& record) {
    return log.value().GroupOf(record.self) == order.group;
  };
  const std::vector<flight::Record>& records = log.value().records;
  if (!order.group.empty() && std::none_of(records.begin(), records.end(), is_of_group))
    return Status(Code::kInvalidArgument, whose + " has no record of a group " + order.group);
  Trace trace{.group = order.group, .clock = "the daemon's, which is monotonic", .hosts = {}, .missing = {}};
  trace.hosts.push_back({.log = std::move(log).value(), .ahead_us = 0, .error_us = 0});
  return Written(trace, order);
}

struct Daemons {
  std::set<std::string> names;
  bool is_group_here = true;  // else they are all that are connected: it may have ended
};

// The daemons that have a peer in the group, or that may have had one.
Result<Daemons> DaemonsOf(const shell::MasterAddress& master, const std::string& group,
                          std::chrono::milliseconds timeout) {
  control::StatusRequest request;
  request.set_group(group);
  const Result<std::string> status = StatusSource(master, timeout).AskLeader(request);
  if (!status.ok()) return status.status();
  const nlohmann::json parsed = nlohmann::json::parse(status.value(), nullptr, false);
  if (!parsed.is_object()) return Status(Code::kProtocol, "the master's status is no JSON");
  Daemons daemons;
  for (const PeerRow& row : PeerRows(parsed, group)) {
    if (!row.daemon.empty()) daemons.names.insert(row.daemon);
  }
  daemons.is_group_here = !daemons.names.empty();
  if (daemons.is_group_here) return daemons;
  for (const nlohmann::json& daemon : Objects(parsed, "daemons")) {
    if (Text(daemon, "connected") == "true") daemons.names.insert(Printable(Text(daemon, "name")));
  }
  return daemons;
}

// The operations of each channel that its trainers have submitted, as the log says; messages have other numbers.
void SetOnly(const flight::Log& log, control::TraceRequest& request) {
  constexpr std::size_t kChannelsMax = 64;
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const flight::Record& record : log.records) {
    const bool is_of_trainer = record.kind == flight::Kind::kSubmitted || record.kind == flight::Kind::kReported;
    if (!is_of_trainer || (record.flags & flight::kMessage) != 0) continue;
    const auto [range, is_new] = ranges.try_emplace(record.channel, record.seq, record.seq);
    range->second.first = std::min(range->second.first, record.seq);
    range->second.second = std::max(range->second.second, record.seq);
  }
  for (const auto& [channel, range] : ranges) {
    if (request.only_size() == kChannelsMax) return;
    control::OperationRange& only = *request.add_only();
    only.set_channel(channel);
    only.set_first(range.first);
    only.set_last(range.second);
  }
}

Status NothingOf(const std::string& group, const Daemons& daemons, const Status& failure) {
  if (daemons.is_group_here) return failure;
  return {Code::kInvalidArgument,
          "there is no group " + group + " now, and the flight recorders of the " +
              std::to_string(daemons.names.size()) +
              " connected daemons hold nothing of it: see ringwayctl status and events; a daemon that was started anew "
              "left its records in its flight file (ringwayctl trace --file)"};
}

Result<HostTrace> AskMaster(const shell::MasterAddress& master, const control::TraceRequest& request,
                            std::chrono::milliseconds timeout) {
  const Result<control::TraceReply> reply = shell::QueryTrace(master, request, timeout);
  if (!reply.ok()) return reply.status();
  Result<flight::Log> log = LogOf(reply.value().image(), "daemon " + request.daemon());
  if (!log.ok()) return log.status();
  HostTrace host{.log = std::move(log).value(), .ahead_us = 0, .error_us = {}};
  constexpr std::int64_t kAheadMax = std::int64_t{1} << 60;
  const std::int64_t ahead = reply.value().ahead_us();
  if (!reply.value().has_clock() || ahead > kAheadMax || ahead < -kAheadMax) return host;
  host.ahead_us = ahead;
  host.error_us = reply.value().error_us();
  return host;
}

Result<Trace> AskAll(const shell::MasterAddress& master, control::TraceRequest request,
                     std::chrono::milliseconds timeout) {
  const Result<Daemons> daemons = DaemonsOf(master, request.group(), timeout);
  if (!daemons.ok()) return daemons.status();
  Trace trace{.group = request.group(), .clock = "the master's, which is monotonic", .hosts = {}, .missing = {}};
  Status failure;
  for (const std::string& daemon : daemons.value().names) {
    request.set_daemon(daemon);
    Result<HostTrace> host = AskMaster(master, request, timeout);
    const bool is_empty = host.ok() && host.value().log.records.empty();
    if (is_empty && !daemons.value().is_group_here) continue;
    if (host.ok() && host.value().error_us) {
      // Hosts that are asked later have newer operations: they are asked for those that the first one has.
      if (request.only_size() == 0 && request.last() > 0) SetOnly(host.value().log, request);
      trace.hosts.push_back(std::move(host).value());
      continue;
    }
    if (!host.ok() && !daemons.value().is_group_here) continue;  // it need not have had a part in the group
    failure =
        host.ok() ? Status(Code::kNotSupported, "its clock is not known yet: ask again in a second") : host.status();
    trace.missing.push_back({.daemon = daemon, .why = failure.text()});
  }
  if (trace.hosts.empty()) return NothingOf(request.group(), daemons.value(), failure);
  return trace;
}

}  // namespace

void AddTrace(CLI::App& app, TraceOrder* order) {
  CLI::App* trace = app.add_subcommand(
      "trace", "writes what the newest operations of a group did, chunk by chunk, for ui.perfetto.dev");
  trace->add_option("GROUP", order->group, "the group (with --file: default all)");
  CLI::Option* const last =
      trace->add_option("--last", order->last, "operations of each channel; 0: all that the flight recorders hold")
          ->capture_default_str();
  trace->add_option("-o,--output", order->out, "file to write")->capture_default_str();
  trace->add_option("--file", order->file, "a daemon's flight file, instead of asking: all of it (default: none)")
      ->excludes(last);
}

Result<std::string> TraceFrom(const std::variant<shell::MasterAddress, std::string>& where, const TraceOrder& order,
                              std::chrono::milliseconds timeout) {
  if (order.group.empty()) return Status(Code::kInvalidArgument, "name a group: see ringwayctl status");
  control::TraceRequest request;
  request.set_group(order.group);
  request.set_last(order.last);
  if (const auto* master = std::get_if<shell::MasterAddress>(&where)) {
    const Result<Trace> trace = AskAll(*master, std::move(request), timeout);
    return trace.ok() ? Written(trace.value(), order) : trace.status();
  }
  const auto& socket = std::get<std::string>(where);
  const Result<std::string> image = shell::QueryTraceOfDaemon(socket, request, timeout);
  return image.ok() ? WrittenOfOne(image.value(), "the daemon at " + socket, order) : image.status();
}

Result<std::string> TraceOfFile(const TraceOrder& order) {
  const Result<std::string> image = ReadFile(order.file);
  return image.ok() ? WrittenOfOne(image.value(), order.file, order) : image.status();
}

}  // namespace ringway::ctl
