// Durations of this peer's operations, by algorithm and size class, which the master compares with its plan's
// predictions.
//
// It holds times of the newest view only, because they depend on world, ring and table. Bounded: kCellsMax pairs of
// algorithm and size class, where a new pair replaces the least recently used one; kNewest times each.
//
// Pure. Threads: one.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::daemon {

// One successful operation.
struct OpSample {
  Epoch epoch;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t bytes = 0;
  Duration took{};
};

class OpTimes {
 public:
  static constexpr std::size_t kCellsMax = 32;
  static constexpr std::size_t kNewest = 15;

  // Ignores samples of older views.
  void Add(const OpSample& sample);
  // Fills in times and their epoch.
  void WriteTo(control::PeerCounters& counters) const;

 private:
  struct Cell {
    std::uint64_t operations = 0;
    std::uint64_t last_used = 0;  // as a count of samples
    std::deque<Duration> newest;
  };
  using Key = std::pair<Algorithm, std::uint32_t>;  // algorithm and size class

  void MakeRoom();

  Epoch epoch_;
  std::uint64_t samples_ = 0;
  std::map<Key, Cell> cells_;
};

}  // namespace ringway::daemon
