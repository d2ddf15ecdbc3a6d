#include "proto/flight/reader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "proto/printable.h"

namespace ringway::flight {
namespace {

template <std::size_t N>
std::string TextOf(const char (&text)[N]) {
  return Printable(std::string(text, std::find(text, text + N, '\0')));
}

template <typename T>
T At(std::span<const std::byte> image, std::uint64_t offset) {
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

Status NoImage(const std::string& what) { return {Code::kProtocol, "this is no image of a flight recorder: " + what}; }

Status CheckHeader(const Header& header, std::size_t bytes) {
  if (header.magic != kMagic) return NoImage("it does not begin with its mark; give the file of --flight-file");
  if (header.version != kVersion || header.record_bytes != sizeof(Record)) {
    return {Code::kVersionMismatch, "the flight recorder is of version " + std::to_string(header.version) +
                                        ", and this program reads version " + std::to_string(kVersion) +
                                        ": use the ringwayctl of the daemon's release"};
  }
  if (header.names_max > kNamesMax || header.records_max > kRecordsMax) return NoImage("it says that it is too large");
  if (ImageBytes(header.names_max, header.records_max) > bytes) return NoImage("it is cut short");
  return Status::Ok();
}

// Whether a daemon can have written it. Times are added up without overflow.
bool IsSound(const Record& record) {
  constexpr std::int64_t kAtMax = std::int64_t{1} << 60;
  const auto kind = static_cast<std::uint8_t>(record.kind);
  return kind >= 1 && kind <= kKindMax && record.at_us >= 0 && record.at_us <= kAtMax;
}

// Microseconds since 1970 of "2026-11-27T09:30:00Z".
std::optional<std::int64_t> UnixUs(const std::string& utc) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00Z";  // 0: a digit
  if (utc.size() != kShape.size()) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::array<unsigned, 6> numbers{};
  std::size_t number = 0;
  for (std::size_t i = 0; i < utc.size(); ++i) {
    if (kShape[i] == '0' ? !is_digit(utc[i]) : utc[i] != kShape[i]) return std::nullopt;
    if (kShape[i] == '0')
      numbers[number] = numbers[number] * 10 + static_cast<unsigned>(utc[i] - '0');
    else
      ++number;
  }
  const auto [year, month, day, hour, minute, second] = numbers;
  namespace chrono = std::chrono;
  const chrono::year_month_day date(chrono::year(static_cast<int>(year)), chrono::month(month), chrono::day(day));
  constexpr unsigned kLeapSecond = 60;
  if (!date.ok() || hour > 23 || minute > 59 || second > kLeapSecond) return std::nullopt;
  const auto time = chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute) + chrono::seconds(second);
  return chrono::duration_cast<chrono::microseconds>(time.time_since_epoch()).count();
}

}  // namespace

Result<Log> Read(std::span<const std::byte> image) {
  if (image.size() < sizeof(Header)) return NoImage("it is shorter than its header");
  const auto header = At<Header>(image, 0);
  if (Status status = CheckHeader(header, image.size()); !status.ok()) return status;
  Log log{.daemon = TextOf(header.daemon),
          .site = TextOf(header.site),
          .utc = TextOf(header.utc),
          .instance = header.instance,
          .pid = header.pid,
          .started_us = header.started_us,
          .started_utc_us = UnixUs(TextOf(header.utc)),
          .left_out = header.left_out,
          .peers = {},
          .records = {}};
  for (std::uint32_t i = 0; i < header.names_max; ++i) {
    const auto name = At<Name>(image, ImageBytes(i, 0));
    if (name.peer != 0) log.peers[name.peer] = {.group = TextOf(name.group), .name = TextOf(name.name)};
  }
  for (std::uint32_t i = 0; i < header.records_max; ++i) {
    const auto record = At<Record>(image, ImageBytes(header.names_max, i));
    if (record.number == 0) continue;
    if (IsSound(record))
      log.records.push_back(record);
    else
      ++log.damaged;
  }
  std::sort(log.records.begin(), log.records.end(),
            [](const Record& a, const Record& b) { return a.number < b.number; });
  return log;
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kSubmitted:
      return "submitted";
    case Kind::kReadyOut:
      return "ready out";
    case Kind::kReadyIn:
      return "ready in";
    case Kind::kInputs:
      return "inputs agreed";
    case Kind::kOut:
      return "out";
    case Kind::kIn:
      return "in";
    case Kind::kWork:
      return "sums and copies";
    case Kind::kDoneOut:
      return "done out";
    case Kind::kDoneIn:
      return "done in";
    case Kind::kWaits:
      return "waits";
    case Kind::kReported:
      return "reported";
    case Kind::kView:
      return "view";
    case Kind::kAbort:
      return "abort";
    case Kind::kStuck:
      return "stuck";
  }
  return "unknown";
}

}  // namespace ringway::flight
