#include "daemon/flow/uplink_share.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {

bool UplinkShare::IsAlone(const PathKey& pair, TimePoint now) const {
  return now - (pair == latest_ ? others_at_ : latest_at_) > kSilent;
}

void UplinkShare::MarkActive(const PathKey& pair, TimePoint until) {
  if (pair == latest_) {
    latest_at_ = std::max(latest_at_, until);
  } else if (until >= latest_at_) {
    latest_ = pair;
    others_at_ = std::exchange(latest_at_, until);
  } else {
    others_at_ = std::max(others_at_, until);
  }
}

// A waiting pair is active: on a slow uplink one segment takes longer than kSilent.
Duration UplinkShare::Wait(const PathKey& pair, TimePoint now) {
  if (IsAlone(pair, now)) return {};
  const Duration wait = bucket_.Wait(now);
  if (wait > Duration()) MarkActive(pair, now + wait);
  return wait;
}

void UplinkShare::OnSent(const PathKey& pair, double bytes, TimePoint now) {
  if (!IsAlone(pair, now)) bucket_.OnSent(bytes);
  MarkActive(pair, now);
}

}  // namespace ringway::flow
