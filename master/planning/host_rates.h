// Rates between daemons, as they were last reported: for those that come back as other peers, in any group. Pure. A
// daemon is known by name and address: an address is only its word, the name may be proven.
//
// A value; not synchronized. Bounded: the rate that was reported the longest ago goes first. Lost with the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "proto/control.pb.h"

namespace ringway {

std::string KeyInRates(const control::PeerInfo& peer);

class HostRates {
 public:
  static constexpr std::size_t kMax = std::size_t{1} << 16;

  // Bytes per second. `to`: empty for the uplink of `from`. Ignored without a `from`.
  void Learn(const std::string& from, const std::string& to, std::uint64_t rate);
  // 0: not known.
  std::uint64_t Known(const std::string& from, const std::string& to) const;

 private:
  using Pair = std::pair<std::string, std::string>;
  struct Entry {
    std::uint64_t rate = 0;
    std::uint64_t learned = 0;
  };

  std::map<Pair, Entry> rates_;
  std::map<std::uint64_t, Pair> order_;  // by when they were learned
  std::uint64_t next_ = 0;
};

}  // namespace ringway
