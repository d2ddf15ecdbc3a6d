// The flight recorder of a DataPlane: what records, and who gets what it holds.
#include <unistd.h>

#include <utility>

#include "daemon/runtime/data_plane.h"
#include "proto/tls/utc.h"

namespace ringway::daemon {
namespace {

constexpr std::size_t kTraceRangesMax = 64;  // of a request

}  // namespace

void DataPlane::SetFlight(FlightMemory memory) {
  const flight::Origin origin{.daemon = options_.identity.name,
                              .site = options_.identity.site,
                              .utc = tls::UtcNow(),
                              .instance = options_.instance,
                              .pid = static_cast<std::uint32_t>(::getpid()),
                              .now = clock_.Now()};
  flight_deck_ = std::make_shared<FlightDeck>(std::move(memory), origin,
                                              [this](FlightDump dump) { control_->WriteDump(std::move(dump)); });
}

std::string DataPlane::FlightImage(const std::string& group, std::uint32_t last) {
  if (flight_deck_ == nullptr) return "";
  return flight_deck_->recorder().Image({.group = group, .last = last, .bytes_max = flight::Recorder::kTraceBytesMax});
}

void DataPlane::SendTrace(const control::TraceRequest& request) {
  control::ToMaster message;
  message.mutable_trace_part()->set_number(request.number());
  flight::Filter filter{
      .group = request.group(), .last = request.last(), .bytes_max = flight::Recorder::kTraceBytesMax};
  for (const control::OperationRange& range : request.only()) {
    if (filter.only.size() == kTraceRangesMax) break;
    filter.only.push_back({.channel = range.channel(), .first = range.first(), .last = range.last()});
  }
  if (flight_deck_ != nullptr) message.mutable_trace_part()->set_image(flight_deck_->recorder().Image(filter));
  control_->ToMaster(std::move(message));
}

void DataPlane::DumpFlight() {
  if (flight_deck_ != nullptr) flight_deck_->Dump(DumpCause::kSignal, "", clock_.Now());
}

}  // namespace ringway::daemon
