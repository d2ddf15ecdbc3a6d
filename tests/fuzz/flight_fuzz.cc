// Any bytes as the image of a flight recorder, which comes from another host or from a file, and the trace that is made
// of it: as they are, and as the image of a writer of this version.
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "client/ctl/trace/chrome_json.h"
#include "proto/flight/reader.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

void Check(const std::string& image) {
  Result<flight::Log> log = flight::Read(std::as_bytes(std::span(image)));
  if (!log.ok()) {
    const Code code = log.status().code();
    REQUIRE(code == Code::kProtocol || code == Code::kVersionMismatch);
    REQUIRE(!log.status().text().empty());
    return;
  }
  REQUIRE(log.value().records.size() + log.value().damaged <= image.size() / sizeof(flight::Record));
  ctl::Trace trace{.group = "", .clock = "a clock", .hosts = {}, .missing = {}};
  constexpr std::int64_t kAheadMax = std::int64_t{1} << 60;
  for (const std::int64_t ahead : {std::int64_t{0}, kAheadMax, -kAheadMax})
    trace.hosts.push_back({.log = log.value(), .ahead_us = ahead, .error_us = 1});
  const nlohmann::json json = nlohmann::json::parse(ctl::ChromeJson(trace), nullptr, false);
  REQUIRE(json.is_object() && json["traceEvents"].is_array());
}

// Gives the image the head of one of this version, with as many records as there is room for.
std::string WithHead(std::string image) {
  if (image.size() < sizeof(flight::Header)) return image;
  flight::Header header;
  std::memcpy(&header, image.data(), sizeof header);
  header.magic = flight::kMagic;
  header.version = flight::kVersion;
  header.record_bytes = sizeof(flight::Record);
  const std::size_t room = image.size() - sizeof header;
  header.names_max %= static_cast<std::uint32_t>(room / sizeof(flight::Name) + 1);
  header.records_max =
      static_cast<std::uint32_t>((room - header.names_max * sizeof(flight::Name)) / sizeof(flight::Record));
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string image(reinterpret_cast<const char*>(data), size);
  ringway::Check(image);
  ringway::Check(ringway::WithHead(image));
  return 0;
}
