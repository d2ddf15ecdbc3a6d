// How long this peer's operations took, by algorithm and size class, for the master to set beside what its plan
// foretold.
//
// Of the newest view only: another world, ring or table takes other times. Bounded: kCellsMax pairs of algorithm and
// size class, of which a new one takes the place of the one that was used longest ago; kNewest times each.
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

// One operation that went well.
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

  // One of a view older than the newest is ignored.
  void Add(const OpSample& sample);
  // Fills in times and their epoch.
  void WriteTo(control::PeerCounters& counters) const;

 private:
  struct Cell {
    std::uint64_t operations = 0;
    std::uint64_t last_used = 0;  // by the number of samples before
    std::deque<Duration> newest;
  };
  using Key = std::pair<Algorithm, std::uint32_t>;  // algorithm and size class

  void MakeRoom();

  Epoch epoch_;
  std::uint64_t samples_ = 0;
  std::map<Key, Cell> cells_;
};

}  // namespace ringway::daemon
