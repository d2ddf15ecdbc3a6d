#include "daemon/core/peer_impl.h"

namespace ringway::core {

void Peer::Impl::OnPathSamples(std::span<const PathSample> samples, TimePoint now) {
  now_ = now;
  if (ended_) return;
  meter_.Add(samples, now);
  ReportPaths();
}

void Peer::Impl::ReportPaths() {
  for (const PathReport& report : meter_.TakeReports(now_)) {
    control::ToMaster message;
    message.mutable_measured()->set_peer(self_.value);
    message.mutable_measured()->set_other(report.other.value_or(PeerId()).value);
    message.mutable_measured()->set_bytes_per_second(report.bytes_per_second);
    message.mutable_measured()->set_round_trip_us(static_cast<std::uint32_t>(report.round_trip.count()));
    ToMasterNow(std::move(message));
    AddNote("path_measured", "other=" + (report.other ? NameOf(*report.other) : "all") +
                                 " bytes_per_second=" + std::to_string(report.bytes_per_second) +
                                 " round_trip_us=" + std::to_string(report.round_trip.count()));
  }
}

}  // namespace ringway::core
