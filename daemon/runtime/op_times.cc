#include "daemon/runtime/op_times.h"

#include <algorithm>

#include "proto/byte_size.h"

namespace ringway::daemon {
namespace {

// Returns the lower median. REQUIRES: not empty.
Duration MedianOf(std::deque<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

void OpTimes::Add(const OpSample& sample) {
  if (sample.epoch < epoch_) return;
  if (sample.epoch > epoch_) cells_.clear();
  epoch_ = sample.epoch;
  const Key key(sample.algorithm, SizeClassOf(sample.bytes));
  if (!cells_.contains(key)) MakeRoom();
  Cell& cell = cells_[key];
  ++cell.operations;
  cell.last_used = samples_++;
  cell.newest.push_back(sample.took);
  if (cell.newest.size() > kNewest) cell.newest.pop_front();
}

void OpTimes::MakeRoom() {
  if (cells_.size() < kCellsMax) return;
  cells_.erase(std::min_element(cells_.begin(), cells_.end(),
                                [](const auto& a, const auto& b) { return a.second.last_used < b.second.last_used; }));
}

void OpTimes::WriteTo(control::PeerCounters& counters) const {
  counters.set_times_epoch(epoch_.value);
  for (const auto& [key, cell] : cells_) {
    control::OpTime& time = *counters.add_times();
    time.set_algorithm(static_cast<std::uint32_t>(key.first));
    time.set_size_class(key.second);
    time.set_operations(cell.operations);
    time.set_median_us(static_cast<std::uint64_t>(std::max<Duration>(MedianOf(cell.newest), Duration(0)).count()));
  }
}

}  // namespace ringway::daemon
