#include "daemon/runtime/live_rates.h"

#include <numeric>
#include <utility>

namespace ringway::daemon {
namespace {

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void LiveRates::OnOperation(Duration took) {
  ++operations_;
  if (newest_.size() == kNewest) newest_.pop_front();
  newest_.push_back(std::max(took, Duration::zero()));
}

void LiveRates::Look(TimePoint now, Paths sent) {
  if (begun_ && now > *begun_) {
    const double seconds = Seconds(now - *begun_);
    operations_per_second_ = static_cast<double>(operations_) / seconds;
    rates_.clear();
    const auto rate = [&](std::uint64_t total, std::uint64_t before) {
      return total <= before ? 0 : static_cast<std::uint64_t>(static_cast<double>(total - before) / seconds);
    };
    for (const auto& [other, now_sent] : sent) {
      const auto found = sent_.find(other);
      const Sent before = found == sent_.end() ? Sent() : found->second;
      if (now_sent.bytes <= before.bytes) continue;
      rates_[other] = {.bytes = rate(now_sent.bytes, before.bytes),
                       .resent_bytes = rate(now_sent.resent_bytes, before.resent_bytes)};
    }
  }
  begun_ = now;
  operations_ = 0;
  sent_ = std::move(sent);
}

Duration LiveRates::operation() const {
  if (newest_.empty()) return {};
  return std::accumulate(newest_.begin(), newest_.end(), Duration()) / static_cast<std::int64_t>(newest_.size());
}

std::uint64_t LiveRates::bytes_per_second(PeerId other) const {
  const auto found = rates_.find(other);
  return found == rates_.end() ? 0 : found->second.bytes;
}

void LiveRates::WriteTo(control::PeerLive& live) const {
  constexpr double kMilli = 1e3;
  live.set_operations_milli(static_cast<std::uint32_t>(operations_per_second_ * kMilli));
  live.set_operation_us(static_cast<std::uint64_t>(operation().count()));
  for (const auto& [other, rate] : rates_) {
    if (live.paths_size() == kPathsMax) break;
    control::PathTraffic& path = *live.add_paths();
    path.set_other(other.value);
    path.set_bytes_per_second(rate.bytes);
    path.set_resent_per_second(rate.resent_bytes);
    path.set_bytes(sent_.at(other).bytes);
  }
}

}  // namespace ringway::daemon
