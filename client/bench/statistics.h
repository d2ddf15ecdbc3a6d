// Statistics of a benchmark's iterations, in the terms of nccl-tests. Pure.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway::bench {

struct TimeSummary {
  double min_ms = 0;
  double median_ms = 0;
  double p99_ms = 0;  // nearest rank: with fewer than 100 times, the largest
};

// REQUIRES: `times_ms` is not empty.
TimeSummary Summarise(std::vector<double> times_ms);

// Gigabytes (1e9) of the buffer reduced per second.
double AlgorithmBandwidth(std::uint64_t bytes, double time_ms);

// Rate on every link of a perfect ring: independent of the world size, so comparable with hardware. An all-reduce has
// 2 (K-1)/K times algbw, its halves (K-1)/K, a broadcast, a reduce and a send algbw itself.
double BusBandwidth(double algorithm_bandwidth, std::uint32_t world_size, OpKind collective);

}  // namespace ringway::bench
