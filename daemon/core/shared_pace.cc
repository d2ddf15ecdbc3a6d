#include "daemon/core/shared_pace.h"

#include <utility>

namespace ringway::core {

bool SharedPace::IsAlone(const PathKey& pair, TimePoint now) const {
  return now - (pair == latest_ ? others_at_ : latest_at_) > kSilent;
}

Duration SharedPace::Wait(const PathKey& pair, TimePoint now) {
  return IsAlone(pair, now) ? Duration() : pace_.Wait(now);
}

void SharedPace::OnSent(const PathKey& pair, double bytes, TimePoint now) {
  if (!IsAlone(pair, now)) pace_.OnSent(bytes);
  if (std::exchange(latest_, pair) != pair) others_at_ = latest_at_;
  latest_at_ = now;
}

}  // namespace ringway::core
