// Which of a pair's lanes is to look for its rate again. Pure.
//
// bbr sends no faster than it has seen a lane deliver. Where many lanes have filled a path, each has seen its part, and
// goes on like that: then one segment takes as long as a segment of every lane, each hop of a ring waits for it, and
// packets leave two by two, which costs three times the processor time. While the pair keeps a pace (token_bucket.h) no
// lane has to hold back by itself. So one that goes at less than a quarter of the pace begins again, as a fresh
// connection does. Of those that have something on its way one at a time, for it leaves at once then. Each once a
// second at most; where one is slow again soon the pause doubles, up to half a minute: then something else holds it
// back.
//
// Every ten seconds that it sends without a pause, bbr stops a lane for a fifth of a second to see the shortest round
// trip. Lanes that began together do that together: the path runs dry, and overflows after it, for what waited in them
// goes out at once. The pace sees to queues already, so no lane has to: in eight seconds each that sends begins again
// once, one after the other, whatever pause it is in, and each that does not in four, and the ten never pass. A rest
// may have used them up, so after one all begin again that have not just done so.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "daemon/flow/backoff.h"
#include "proto/clock.h"

namespace ringway::flow {

// One lane at one moment.
struct LaneHaste {
  double rate = 0;  // bytes per second that congestion control allows; 0: not known, or not to be looked at
  bool sending = false;
};

class LaneRenewal {
 public:
  // `pace`: of all together, in bytes per second; 0: none. Gives the lanes that are to begin again.
  std::vector<std::size_t> Judge(std::span<const LaneHaste> lanes, double pace, TimePoint now);
  // Likewise, where the pair sends again after nothing was under way.
  std::vector<std::size_t> AfterRest(double pace, TimePoint now);

 private:
  void TakeTurn(std::span<const LaneHaste> lanes, TimePoint now, std::vector<std::size_t>& out);

  struct Lane {
    TimePoint begun{};
    Backoff pause;
  };
  std::vector<Lane> lanes_;
  TimePoint last_turn_{};
};

}  // namespace ringway::flow
