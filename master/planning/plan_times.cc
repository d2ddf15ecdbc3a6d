#include "master/planning/plan_times.h"

#include <algorithm>
#include <iterator>

#include "proto/byte_size.h"
#include "proto/peer_counts.h"

namespace ringway {

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
