#include "master/planning/plan_times.h"

#include <algorithm>
#include <iterator>

#include "proto/byte_size.h"
#include "proto/peer_counts.h"

namespace ringway {
namespace {

control::PeerLive CheckedLive(const control::PeerLive& live) {
  control::PeerLive checked;
  checked.set_operations_milli(live.operations_milli());
  checked.set_operation_us(std::min(live.operation_us(), kOperationUsMax));
  for (const control::PathTraffic& path : live.paths()) {
    if (checked.paths_size() == kLivePathsMax) break;
    control::PathTraffic& kept = *checked.add_paths();
    kept.set_other(path.other());
    kept.set_bytes_per_second(path.bytes_per_second());
    kept.set_bytes(path.bytes());
    kept.set_resent_per_second(path.resent_per_second());
  }
  if (!live.has_wait()) return checked;
  control::PeerWait& wait = *checked.mutable_wait();
  wait.set_what(live.wait().what().substr(0, kWaitTextBytesMax));
  wait.set_age_ms(live.wait().age_ms());
  wait.set_reason(live.wait().reason().substr(0, kWaitTextBytesMax));
  for (const std::uint64_t on : live.wait().on()) {
    if (wait.on_size() < kLivePathsMax) wait.add_on(on);
  }
  return checked;
}

}  // namespace

control::PeerCounters CheckedCounters(const control::PeerCounters& counters) {
  control::PeerCounters checked;
  checked.set_peer(counters.peer());
  for (const std::uint64_t count : counters.counts()) {
    if (checked.counts_size() < static_cast<int>(kPeerCounts.size())) checked.add_counts(count);
  }
  checked.set_times_epoch(counters.times_epoch());
  for (const control::OpTime& time : counters.times()) {
    if (checked.times_size() == kOpTimesMax) break;
    if (time.algorithm() >= kAlgorithmCount || time.size_class() >= kSizeClassCount) continue;
    control::OpTime& kept = *checked.add_times();
    kept.set_algorithm(time.algorithm());
    kept.set_size_class(time.size_class());
    kept.set_operations(time.operations());
    kept.set_median_us(time.median_us());
  }
  if (counters.has_live()) *checked.mutable_live() = CheckedLive(counters.live());
  return checked;
}

void SeenTimes::Add(const control::PeerCounters& counters) {
  if (Epoch(counters.times_epoch()) != view_) return;
  for (const control::OpTime& time : counters.times()) {
    if (time.size_class() != size_class_) continue;
    Seen& seen = seen_[static_cast<Algorithm>(time.algorithm())];
    seen.medians_us.insert(time.median_us());
    seen.operations = std::max<std::uint64_t>(seen.operations, time.operations());
  }
}

std::optional<SeenTime> SeenTimes::Of(Algorithm algorithm) const {
  const auto found = seen_.find(algorithm);
  if (found == seen_.end()) return std::nullopt;
  const Seen& seen = found->second;
  const auto middle = std::next(seen.medians_us.begin(), static_cast<std::ptrdiff_t>((seen.medians_us.size() - 1) / 2));
  return SeenTime{.seconds = static_cast<double>(*middle) / 1e6, .operations = seen.operations};
}

}  // namespace ringway
