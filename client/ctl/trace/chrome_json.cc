#include "client/ctl/trace/chrome_json.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "proto/ids.h"

namespace ringway::ctl {
namespace {

using flight::Kind;
using flight::Record;
using nlohmann::json;

constexpr std::int64_t kAtMax = std::int64_t{1} << 60;  // of times

constexpr std::int64_t kYear10000Us = 253'402'300'800'000'000;

// An operation at one peer, as far as its records are there.
struct Life {
  const Record* submitted = nullptr;
  const Record* reported = nullptr;
  const Record* first_out = nullptr;
  const Record* first_in = nullptr;
  const Record* last_in = nullptr;     // by its end
  const Record* last_ready = nullptr;  // READY, or the first chunk, of who began last
  const Record* last_done = nullptr;   // DONE of who came last
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t work_us = 0;
};

std::int64_t EndOf(const Record& record) { return record.at_us + record.took_us; }

// What names an operation or a message at a peer: messages are numbered in each of their streams.
using LifeName = std::tuple<std::uint64_t, OpName, bool, std::uint64_t, std::uint32_t, bool>;

OpName OpOf(const Record& record) { return {ChannelId(record.channel), record.seq}; }

LifeName LifeNameOf(const Record& record) {
  const bool is_message = (record.flags & flight::kMessage) != 0;
  return {record.self,
          OpOf(record),
          is_message,
          is_message ? record.other : 0,
          is_message ? record.tag : 0,
          (record.flags & flight::kSends) != 0};
}

void Look(const Record& record, Life& life) {
  const auto keep = [&record](const Record*& newest, bool is_later) {
    if (newest == nullptr || is_later) newest = &record;
  };
  switch (record.kind) {
    case Kind::kSubmitted:
      life.submitted = &record;
      break;
    case Kind::kReported:
      life.reported = &record;
      break;
    case Kind::kOut:
      keep(life.first_out, false);
      life.bytes_out += record.bytes;
      break;
    case Kind::kIn:
      keep(life.first_in, false);
      keep(life.last_in, life.last_in != nullptr && EndOf(record) >= EndOf(*life.last_in));
      life.bytes_in += record.bytes;
      life.work_us += record.work_us;
      break;
    case Kind::kReadyIn:
      keep(life.last_ready, true);
      break;
    case Kind::kDoneIn:
      keep(life.last_done, true);
      break;
    default:
      break;
  }
}

// Writes the events of one host's log.
class HostWriter {
 public:
  HostWriter(const HostTrace& host, std::int64_t begin_us, int* next_process, json* events)
      : host_(host), begin_us_(begin_us), next_process_(next_process), events_(events) {}

  void Write(const std::string& group) {
    std::map<LifeName, Life> lives;
    for (const Record& record : host_.log.records) {
      if (!group.empty() && host_.log.GroupOf(record.self) != group) continue;
      end_us_ = std::max(end_us_, EndOf(record));
      if (record.kind == Kind::kView || record.kind == Kind::kAbort || record.kind == Kind::kStuck) {
        AddInstant(record, {{"epoch", ToString(Epoch(record.epoch))}, {"world", record.segments}});
      } else if (record.kind == Kind::kWork) {
        AddWork(record);
      } else {
        Look(record, lives[LifeNameOf(record)]);
        AddRecord(record);
      }
    }
    for (const auto& [name, life] : lives) AddOperation(std::get<0>(name), std::get<1>(name), life);
  }

 private:
  std::string NameOfPeer(std::uint64_t peer) const {
    const auto found = host_.log.peers.find(peer);
    return found == host_.log.peers.end() || found->second.name.empty() ? "peer " + std::to_string(peer)
                                                                        : found->second.name;
  }
  std::int64_t TimeOf(std::int64_t at_us) const { return at_us - host_.ahead_us - begin_us_; }

  // The process that stands for a peer here; named once.
  int ProcessOf(std::uint64_t self) {
    const auto [found, is_new] = processes_.try_emplace(self, *next_process_);
    if (!is_new) return found->second;
    ++*next_process_;
    const std::string where = host_.log.daemon + (host_.log.site.empty() ? "" : ", " + host_.log.site);
    events_->push_back({{"ph", "M"},
                        {"name", "process_name"},
                        {"pid", found->second},
                        {"tid", 0},
                        {"args", {{"name", NameOfPeer(self) + " (" + where + ")"}}}});
    return found->second;
  }

  json Event(const char* phase, std::string name, std::uint64_t self, std::int64_t at_us) {
    return {{"ph", phase}, {"name", std::move(name)}, {"pid", ProcessOf(self)}, {"tid", 0}, {"ts", TimeOf(at_us)}};
  }

  void AddInstant(const Record& record, json args) {
    std::string name = flight::NameOf(record.kind);
    const char* const before = record.kind == Kind::kWaits ? " for " : record.kind == Kind::kAbort ? ", lost " : " ";
    if (record.other != 0) name += before + NameOfPeer(record.other);
    json event = Event("i", std::move(name), record.self, record.at_us);
    event["s"] = "t";
    event["cat"] = "event";
    event["args"] = std::move(args);
    events_->push_back(std::move(event));
  }

  void AddSlice(const char* category, const std::string& name, const Record& record, const json& args) {
    const std::string id = std::to_string(ProcessOf(record.self)) + "." + std::to_string(next_slice_++);
    for (const bool is_begin : {true, false}) {
      json event = Event(is_begin ? "b" : "e", name, record.self, is_begin ? record.at_us : EndOf(record));
      event["cat"] = category;
      event["id"] = id;
      if (is_begin) event["args"] = args;
      events_->push_back(std::move(event));
    }
  }

  void AddWork(const Record& record) {
    json event = Event("X", flight::NameOf(record.kind), record.self, record.at_us);
    event["dur"] = record.took_us;
    event["cat"] = "work";
    event["args"] = {{"slices", record.segments}, {"work_us", record.work_us}};
    events_->push_back(std::move(event));
  }

  void AddRecord(const Record& record) {
    const std::string op = ToString(OpOf(record));
    if (record.kind == Kind::kSubmitted || record.kind == Kind::kReported) return;  // AddOperation's
    const bool is_message = (record.flags & flight::kMessage) != 0;
    if (record.kind == Kind::kWaits)
      return AddInstant(record, {{"op", is_message ? "a message" : op}, {"waited_us", record.took_us}});
    if (record.kind != Kind::kIn && record.kind != Kind::kOut)
      return AddInstant(record, {{"op", op}, {"epoch", ToString(Epoch(record.epoch))}});
    const bool is_in = record.kind == Kind::kIn;
    json args = {{"op", op},
                 {"epoch", ToString(Epoch(record.epoch))},
                 {"step", record.step},
                 {"chunk", record.chunk},
                 {"segments", record.segments},
                 {"bytes", record.bytes},
                 {"longest_gap_us", record.gap_us}};
    if (is_in) {
      args["work_us"] = record.work_us;
      args["wait_us"] = record.took_us - std::min(record.took_us, record.work_us);
      args["summed"] = (record.flags & flight::kSummed) != 0;
      args["copied"] = (record.flags & flight::kCopied) != 0;
      args["too_early"] = (record.flags & flight::kHeld) != 0;
    }
    if (is_message) args["tag"] = record.tag;
    AddSlice("chunk", (is_in ? "from " : "to ") + NameOfPeer(record.other), record, args);
  }

  void AddOperation(std::uint64_t self, const OpName& op, const Life& life) {
    if (life.submitted == nullptr && life.reported == nullptr) return;
    Record slice = life.reported != nullptr ? *life.reported : *life.submitted;
    if (life.reported != nullptr) {
      slice.at_us -= slice.took_us;
    } else {  // it lasts for as long as is known
      constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
      slice.took_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(end_us_ - slice.at_us, 0, kMost));
    }
    const std::int64_t begin = slice.at_us;
    json args = {{"op", ToString(op)},
                 {"bytes_in", life.bytes_in},
                 {"bytes_out", life.bytes_out},
                 {"work_us", life.work_us},
                 {"is_over", life.reported != nullptr}};
    const auto after = [&](const char* key, const Record* record, bool at_end) {
      if (record != nullptr) args[key] = (at_end ? EndOf(*record) : record->at_us) - begin;
    };
    after("first_out_us", life.first_out, false);
    after("first_in_us", life.first_in, false);
    after("last_in_us", life.last_in, true);
    after("last_ready_us", life.last_ready, false);
    after("last_done_us", life.last_done, false);
    if (life.last_in != nullptr) args["last_in_from"] = NameOfPeer(life.last_in->other);
    if (life.last_ready != nullptr) args["last_ready_from"] = NameOfPeer(life.last_ready->other);
    if (life.last_done != nullptr) args["last_done_from"] = NameOfPeer(life.last_done->other);
    const bool is_known = life.submitted != nullptr && life.submitted->detail < kOpKindCount;
    if (life.submitted != nullptr) args["bytes"] = life.submitted->bytes;
    if (life.reported != nullptr) {
      args["epoch"] = ToString(Epoch(slice.epoch));
      args["code"] = ringway::NameOf(CodeFromWire(slice.detail));
    }
    std::string kind = is_known ? ringway::NameOf(static_cast<OpKind>(life.submitted->detail)) : "operation";
    if ((slice.flags & flight::kMessage) != 0) {
      kind = ((slice.flags & flight::kSends) != 0 ? "send to " : "recv from ") + NameOfPeer(slice.other);
      args["tag"] = slice.tag;
    }
    slice.self = self;
    AddSlice("operation", kind + " " + ToString(op), slice, args);
  }

  const HostTrace& host_;
  const std::int64_t begin_us_;
  int* next_process_;
  json* events_;
  std::map<std::uint64_t, int> processes_;                          // by peer
  std::int64_t end_us_ = std::numeric_limits<std::int64_t>::min();  // of the newest record
  std::uint64_t next_slice_ = 0;
};

std::int64_t BeginOf(const Trace& trace) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  for (const HostTrace& host : trace.hosts) {
    for (const Record& record : host.log.records) begin = std::min(begin, record.at_us - host.ahead_us);
    for (const Record& record : host.log.records) {
      if (record.kind == Kind::kReported) begin = std::min(begin, record.at_us - record.took_us - host.ahead_us);
    }
  }
  return begin == std::numeric_limits<std::int64_t>::max() ? 0 : begin;
}

// The wall clock at `at_us` of the trace's clock, within a second, by that of the first host that says what its was.
std::optional<std::string> UtcOf(const Trace& trace, std::int64_t at_us) {
  namespace chrono = std::chrono;
  for (const HostTrace& host : trace.hosts) {
    if (!host.log.started_utc_us || host.log.started_us > kAtMax || host.log.started_us < -kAtMax) continue;
    const std::int64_t since_start = at_us + host.ahead_us - host.log.started_us;
    const std::int64_t utc_us = *host.log.started_utc_us + since_start;
    if (utc_us < 0 || utc_us >= kYear10000Us) continue;
    const chrono::sys_time<chrono::microseconds> utc{chrono::microseconds(utc_us)};
    const auto day = chrono::floor<chrono::days>(utc);
    const chrono::year_month_day date(day);
    const chrono::hh_mm_ss<chrono::microseconds> time(utc - day);
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02ld:%02ld:%02ldZ", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                  time.minutes().count(), time.seconds().count());
    return text.data();
  }
  return std::nullopt;
}

}  // namespace

std::string ChromeJson(const Trace& trace) {
  json events = json::array();
  json hosts = json::array();
  int next_process = 1;
  const std::int64_t begin = BeginOf(trace);
  const std::optional<std::string> utc = UtcOf(trace, begin);
  for (const HostTrace& host : trace.hosts) {
    HostWriter(host, begin, &next_process, &events).Write(trace.group);
    hosts.push_back({{"daemon", host.log.daemon},
                     {"site", host.log.site},
                     {"pid", host.log.pid},
                     {"clock_ahead_us", host.ahead_us},
                     {"clock_error_us", host.error_us ? json(*host.error_us) : json()},
                     {"records", host.log.records.size()},
                     {"records_left_out", host.log.left_out},
                     {"records_damaged", host.log.damaged},
                     {"recorder_started", host.log.utc}});
  }
  json missing = json::array();
  for (const MissingHost& host : trace.missing) missing.push_back({{"daemon", host.daemon}, {"why", host.why}});
  const json out = {{"displayTimeUnit", "ms"},
                    {"metadata",
                     {{"group", trace.group},
                      {"clock", trace.clock},
                      {"begin_us", begin},
                      {"begin_utc", utc ? json(*utc) : json()},
                      {"hosts", std::move(hosts)},
                      {"missing", std::move(missing)}}},
                    {"traceEvents", std::move(events)}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ringway::ctl
