#include "daemon/flow/uplink_share.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {

bool UplinkShare::IsAlone(const PathKey& pair, TimePoint now) const {
  return now - (pair == latest_ ? others_at_ : latest_at_) > kSilent;
}

void UplinkShare::SeeUntil(const PathKey& pair, TimePoint until) {
  if (pair == latest_) {
    latest_at_ = std::max(latest_at_, until);
  } else if (until >= latest_at_) {
    latest_ = pair;
    others_at_ = std::exchange(latest_at_, until);
  } else {
    others_at_ = std::max(others_at_, until);
  }
}

// Slow uplinks take longer for a segment than a sender may be silent.
Duration UplinkShare::Wait(const PathKey& pair, TimePoint now) {
  if (IsAlone(pair, now)) return {};
  const Duration wait = pace_.Wait(now);
  if (wait > Duration()) SeeUntil(pair, now + wait);
  return wait;
}

void UplinkShare::OnSent(const PathKey& pair, double bytes, TimePoint now) {
  if (!IsAlone(pair, now)) pace_.OnSent(bytes);
  SeeUntil(pair, now);
}

}  // namespace ringway::flow
