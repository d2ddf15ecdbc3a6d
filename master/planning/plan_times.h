// What daemons say about the times of their operations, checked and put together. Pure.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// A daemon keeps no more pairs of algorithm and size class.
inline constexpr int kOpTimesMax = 32;

// The counters without what no daemon of ours says: times beyond kOpTimesMax, of unknown algorithms or sizes, unknown
// fields. So what is kept of them is bounded.
control::PeerCounters CheckedCounters(const control::PeerCounters& counters);

struct SeenTime {
  double seconds = 0;            // the lower median of the peers' medians
  std::uint64_t operations = 0;  // of the peer that saw most
  friend bool operator==(const SeenTime&, const SeenTime&) = default;
};

// What the members of one view saw of one size class, by algorithm.
class SeenTimes {
 public:
  SeenTimes(Epoch view, std::uint32_t size_class) : view_(view), size_class_(size_class) {}

  // Ignores what is of other views. REQUIRES: `counters` are checked.
  void Add(const control::PeerCounters& counters);
  std::optional<SeenTime> Of(Algorithm algorithm) const;

 private:
  struct Seen {
    std::multiset<std::uint64_t> medians_us;
    std::uint64_t operations = 0;
  };

  Epoch view_;
  std::uint32_t size_class_;
  std::map<Algorithm, Seen> seen_;
};

}  // namespace ringway
