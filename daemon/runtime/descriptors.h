// This process's file descriptors, and how many of them lanes and trainers may take.
//
//   0 -------------- more_lanes_max -------------- first_lanes_max -------------------- limit - rest ----------- limit
//   |   any lanes         |   first lanes of a pair only   |  trainers: sessions, regions  |  links, dials, files  |
//
// Lanes beyond the first ones of a pair only make it faster, so they stop at half of the limit; first ones, without
// which a pair does not stand, at three quarters. So a trainer's descriptors always find room. Trainers get three
// quarters of the last quarter, so that the daemon's own always find some, too; connections that are kept for later
// lanes get half of those.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringway::daemon {

struct DescriptorPlan {
  std::uint64_t limit = 1024;
  std::size_t per_lane = 1;  // 2 with lane threads

  static constexpr std::uint64_t kReserveMax = 64 * 1024;  // sufficient, however high the limit

  // Totals of lanes up to which another one may be opened: beyond a pair's first ones, and any.
  std::size_t more_lanes_max() const { return LanesIn(limit - std::min(limit / 2, kReserveMax)); }
  std::size_t first_lanes_max() const { return LanesIn(limit - Reserve()); }
  // Descriptors of all sessions and regions together.
  std::uint64_t trainers_max() const { return Reserve() / 4 * 3; }
  std::size_t kept_max() const { return static_cast<std::size_t>(Reserve() / 8); }

 private:
  std::uint64_t Reserve() const { return std::min(limit / 4, kReserveMax / 2); }
  std::size_t LanesIn(std::uint64_t descriptors) const { return static_cast<std::size_t>(descriptors) / per_lane; }
};

// Raises the soft limit to the hard one. Returns the new soft limit.
std::uint64_t RaiseDescriptorLimit();

}  // namespace ringway::daemon
