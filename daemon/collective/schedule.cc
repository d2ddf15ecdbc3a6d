#include "daemon/collective/schedule.h"

#include <algorithm>

#include "proto/check.h"

namespace ringway::collective {

Schedule RingSchedule(std::span<const Rank> ring, Rank self) {
  const auto world = static_cast<std::uint32_t>(ring.size());
  const auto found = std::find(ring.begin(), ring.end(), self);
  RINGWAY_CHECK(found != ring.end());
  const auto place = static_cast<std::uint32_t>(found - ring.begin());
  Schedule schedule;
  schedule.chunks = world;
  if (world == 1) return schedule;

  const Rank left = ring[(place + world - 1) % world];
  const Rank right = ring[(place + 1) % world];
  const auto chunk_at = [world](std::uint32_t from, std::uint32_t back) {
    return static_cast<std::uint16_t>((from + 2 * world - back % world) % world);
  };
  const std::uint32_t last = 2 * world - 3;
  for (std::uint32_t step = 0; step <= last; ++step) {
    const bool reduce = step <= world - 2;
    // Both phases follow one rule: position i sends chunk i - step, where the all-gather's steps simply go on counting.
    schedule.departures.push_back({.step = static_cast<std::uint16_t>(step),
                                   .chunk = chunk_at(place, step),
                                   .to = right,
                                   .finished = !reduce,
                                   .after = step == 0 ? kNone : step - 1});
    schedule.arrivals.push_back({.step = static_cast<std::uint16_t>(step),
                                 .chunk = chunk_at(place, step + 1),
                                 .from = left,
                                 .reduce = reduce,
                                 .finishes = step == world - 2});
  }
  return schedule;
}

Schedule FetchSchedule(Rank holder, Rank lacking, Rank self) {
  Schedule schedule;
  if (self == holder) schedule.departures.push_back({.step = 0, .chunk = 0, .to = lacking, .finished = true});
  if (self == lacking) schedule.arrivals.push_back({.step = 0, .chunk = 0, .from = holder});
  return schedule;
}

}  // namespace ringway::collective
