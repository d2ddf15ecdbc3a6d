// Operation times reported by daemons, validated and aggregated. Pure.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// Maximum number of (algorithm, size class) entries of a peer.
inline constexpr int kOpTimesMax = 32;
// Maximum number of paths, and of peers that it waits for, in what a peer does now.
inline constexpr int kLivePathsMax = 64;
inline constexpr std::size_t kWaitTextBytesMax = 256;
inline constexpr std::uint64_t kOperationUsMax = 1'000'000'000'000;

// Returns the counters without entries beyond kOpTimesMax and kLivePathsMax, of unknown algorithms or sizes, and
// without unknown fields, so that their size is bounded.
control::PeerCounters CheckedCounters(const control::PeerCounters& counters);

struct SeenTime {
  double seconds = 0;            // the lower median of the peers' medians
  std::uint64_t operations = 0;  // of the peer with the most samples
  friend bool operator==(const SeenTime&, const SeenTime&) = default;
};

// Times of one size class in one view, by algorithm.
class SeenTimes {
 public:
  SeenTimes(Epoch view, std::uint32_t size_class) : view_(view), size_class_(size_class) {}

  // Ignores counters of other views. REQUIRES: `counters` are checked.
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
