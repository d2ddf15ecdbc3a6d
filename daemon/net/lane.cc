#include "daemon/net/lane.h"

#include <cmath>

namespace ringway::net {
namespace {

constexpr double kSamePace = 0.01;

}  // namespace

Lane::Lane(LaneLabel label, std::uint32_t send_payload_bytes_max)
    : label_(label), send_payload_bytes_max_(send_payload_bytes_max) {}

void Lane::Pace(double bytes_per_second) {
  StreamPath* const stream_path = path();
  if (stream_path == nullptr || std::abs(bytes_per_second - pace_) <= kSamePace * pace_) return;
  pace_ = bytes_per_second;
  stream_path->SetPace(pace_);
}

void Lane::Renew() {
  if (StreamPath* const stream_path = path()) stream_path->Renew();
}

void Lane::BeginTraffic() {
  if (StreamPath* const stream_path = path()) begin_ = stream_path->Traffic();
}

LaneTraffic Lane::traffic() {
  StreamPath* const stream_path = path();
  if (stream_path == nullptr) return {};
  LaneTraffic traffic = stream_path->Traffic();
  traffic.delivered_bytes -= begin_.delivered_bytes;
  traffic.earlier_bytes = begin_.delivered_bytes;
  traffic.receiver_limited -= begin_.receiver_limited;
  traffic.resent_bytes -= begin_.resent_bytes;
  traffic.retransmits -= begin_.retransmits;
  return traffic;
}

std::span<std::byte> Lane::codec_scratch() {
  if (codec_scratch_.empty()) codec_scratch_.resize(send_payload_bytes_max_);
  return codec_scratch_;
}

}  // namespace ringway::net
