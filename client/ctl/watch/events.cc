#include "client/ctl/watch/events.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"
#include "proto/tls/utc.h"

namespace ringway::ctl {
namespace {

using nlohmann::json;

constexpr std::size_t kBatchMax = 4096;  // no program of ours sends as many at once
constexpr std::chrono::milliseconds kPause{500};

// Which process it is: another one numbers anew.
std::string ProcessOf(const json& status) {
  for (const char* key : {"master", "daemon"}) {
    const auto found = status.find(key);
    if (found == status.end() || !found->is_object()) continue;
    return key + Text(*found, "term") + "." + Text(*found, "pid");
  }
  return "";
}

// When it happened, where it is `now` (proto/tls/utc.h).
std::string TimeOf(const std::string& now, const EventReader::Event& event) {
  constexpr const char* kFormat = "%Y-%m-%dT%H:%M:%SZ";
  std::tm calendar{};
  if (::strptime(now.c_str(), kFormat, &calendar) == nullptr) return "-";
  const std::time_t then = ::timegm(&calendar) - event.age_ms / 1000;
  if (::gmtime_r(&then, &calendar) == nullptr) return "-";
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, kFormat, &calendar));
}

void Print(const EventReader::Batch& batch, const EventsOrder& order, std::int64_t age_max_ms, bool as_json) {
  if (batch.missed > 0 && !as_json) {
    std::fprintf(stderr, "ringwayctl: %llu events before these are no longer kept\n",
                 static_cast<unsigned long long>(batch.missed));
  }
  const std::string now = tls::UtcNow();
  for (const EventReader::Event& event : batch.events) {
    if (event.age_ms >= age_max_ms) continue;
    if (!order.group.empty() && event.group != order.group) continue;
    std::printf("%s\n", EventLine(event, TimeOf(now, event), as_json).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

const CLI::App* AddEvents(CLI::App& app, EventsOrder* order) {
  CLI::App* events = app.add_subcommand(
      "events", "what has happened, a line each: views, losses and why, joins, plans, orders; --json: an object each");
  events->add_option("--group", order->group, "only events of this group; by default all");
  events->add_option("--since", order->since, "only those of the last 90s, 10m or 1h (default: all that are kept)")
      ->check([](const std::string& text) {
        return ParseAgeMs(text) ? "" : "'" + text + "' is no age: write 90s, 10m or 1h";
      });
  events->add_flag("--follow", order->follow, "go on with those to come");
  return events;
}

std::optional<std::int64_t> ParseAgeMs(const std::string& text) {
  constexpr std::int64_t kYearSeconds = std::int64_t{366} * 86400;
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || count < 0 || end - stop != 1) return std::nullopt;
  const std::int64_t unit = *stop == 's' ? 1 : *stop == 'm' ? 60 : *stop == 'h' ? 3600 : *stop == 'd' ? 86400 : 0;
  if (unit == 0 || count > kYearSeconds / unit) return std::nullopt;
  return count * unit * 1000;
}

Result<EventReader::Batch> EventReader::Take(const std::string& status_json) {
  const json status = ParseStatus(status_json);
  const auto list = status.is_object() ? status.find("events") : status.end();
  if (!status.is_object() || list == status.end() || !list->is_array()) {
    return Status(Code::kProtocol, "the answer has no events: is that program of an older release?");
  }
  Batch batch;
  const std::string process = ProcessOf(status);
  if (!process_.empty() && process != process_) {
    batch.restarted = true;
    last_ = 1;
  }
  const bool is_first = process_.empty();
  process_ = process;
  std::size_t listed = 0;
  for (const json& one : *list) {
    if (++listed > kBatchMax) break;
    if (!one.is_object()) continue;
    const std::uint64_t number = CountAt(one, "number");
    if (number <= last_) continue;
    if (!is_first && batch.events.empty() && last_ > 1) batch.missed = number - last_ - 1;
    last_ = number;
    const auto age = one.find("age_ms");
    const std::int64_t age_ms = age != one.end() && age->is_number_integer() ? age->get<std::int64_t>() : 0;
    batch.events.push_back({.number = number,
                            .age_ms = std::clamp<std::int64_t>(age_ms, 0, std::int64_t{1} << 50),
                            .kind = PrintableAt(one, "event"),
                            .group = PrintableAt(one, "group"),
                            .who = PrintableAt(one, "who"),
                            .text = PrintableAt(one, "text")});
  }
  // A daemon's list is whole; after a restart the answer was to the number of the old process.
  batch.more = status.contains("master") && (!batch.events.empty() || batch.restarted);
  return batch;
}

std::string EventLine(const EventReader::Event& event, const std::string& time, bool as_json) {
  if (as_json) {
    const nlohmann::ordered_json line = {{"time", time},         {"number", event.number}, {"event", event.kind},
                                         {"group", event.group}, {"who", event.who},       {"text", event.text}};
    return line.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  constexpr std::size_t kKindWidth = 14;
  std::string kind = event.kind;
  kind.resize(std::max(kind.size(), kKindWidth), ' ');
  std::string line = time + "  " + kind + " " + (event.group.empty() ? "-" : event.group);
  if (!event.who.empty()) line += "  " + event.who;
  return event.text.empty() ? line : line + "  " + event.text;
}

Status RunEvents(const StatusSource& source, const EventsOrder& order, bool as_json) {
  EventReader reader;
  const std::int64_t age_max = ParseAgeMs(order.since).value_or(std::int64_t{1} << 50);
  bool is_first = true;
  bool is_away = false;
  bool is_known = order.group.empty();  // its group: by an event, though it has ended
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    // The answer is younger than the question, so an event of less than this age is one from after the beginning.
    const auto asked_after =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    control::StatusRequest request;
    request.set_events(true);
    request.set_only_events(true);
    request.set_events_after(reader.after());
    const Result<std::string> status = source.AskLeader(request);
    const Result<EventReader::Batch> batch = status.ok() ? reader.Take(status.value()) : status.status();
    if (!batch.ok() && (!order.follow || is_first)) return batch.status();
    if (!batch.ok() && !std::exchange(is_away, true)) {
      std::fprintf(stderr, "ringwayctl: %s; asking again\n", batch.status().text().c_str());
    }
    if (batch.ok()) {
      is_away = false;
      const auto is_of_group = [&](const EventReader::Event& event) { return event.group == order.group; };
      is_known = is_known || std::any_of(batch.value().events.begin(), batch.value().events.end(), is_of_group);
      Print(batch.value(), order, is_first || batch.value().more ? age_max : std::int64_t{1} << 50, as_json);
      is_first = false;
      // A master where much happens always has more.
      const bool is_past_beginning = batch.value().HasYoungerThan(asked_after.count());
      if (!order.follow && (!batch.value().more || is_past_beginning)) {
        return is_known ? Status::Ok() : CheckGroup(source, order.group);
      }
      if (batch.value().more) continue;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace ringway::ctl
