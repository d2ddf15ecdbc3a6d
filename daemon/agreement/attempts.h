// Attempts: each run of an operation, and each fetch that is served, has a number of its own, and is live until it has
// ended. Of what is not live no memory is touched and no frame is sent again. Numbers are never used twice; 0 is none.
#pragma once

#include <cstdint>
#include <set>

namespace ringway::agreement {

class Attempts {
 public:
  std::uint64_t Begin() {
    live_.insert(++newest_);
    return newest_;
  }
  void End(std::uint64_t attempt) { live_.erase(attempt); }
  bool IsLive(std::uint64_t attempt) const { return live_.contains(attempt); }

 private:
  std::uint64_t newest_ = 0;
  std::set<std::uint64_t> live_;
};

}  // namespace ringway::agreement
