#include "client/bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace ringway::bench {

TimeSummary Summarise(std::vector<double> times_ms) {
  std::sort(times_ms.begin(), times_ms.end());
  const std::size_t count = times_ms.size();
  const auto p99_rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(count)));
  TimeSummary summary;
  summary.min_ms = times_ms.front();
  summary.median_ms = count % 2 == 1 ? times_ms[count / 2] : (times_ms[count / 2 - 1] + times_ms[count / 2]) / 2.0;
  summary.p99_ms = times_ms[std::max<std::size_t>(p99_rank, 1) - 1];
  return summary;
}

double AlgorithmBandwidth(std::uint64_t bytes, double time_ms) {
  return time_ms > 0 ? static_cast<double>(bytes) / (time_ms * 1e6) : 0.0;
}

double BusBandwidth(double algorithm_bandwidth, std::uint32_t world_size, OpKind collective) {
  if (world_size == 0) return 0.0;
  if (collective == OpKind::kBroadcast || collective == OpKind::kReduce || collective == OpKind::kSend)
    return algorithm_bandwidth;
  const double passes = collective == OpKind::kAllReduce ? 2.0 : 1.0;
  return algorithm_bandwidth * passes * (world_size - 1) / world_size;
}

}  // namespace ringway::bench
