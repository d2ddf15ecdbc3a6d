// Which of a pair's large lanes is to reset its congestion control, so that it probes for its rate anew. Pure.
//
// bbr paces a lane at the bandwidth that it has seen on that lane. Where many lanes filled a path, each has seen its
// share and stays there. Then one segment takes as long as a segment of every lane, each hop of a ring waits for it,
// and packets leave in pairs, which costs three times the CPU. While the pair is paced (token_bucket.h) no lane has to
// restrain itself.
//
//   trigger                                        reset
//   a lane's rate is under 1/4 of the pair's       that lane; sending lanes one at a time; backoff 1 s to 30 s a lane
//   bbr enters PROBE_RTT every 10 s while sending  each sending lane every 8 s, staggered; each idle lane every 4 s
//   the pair sends again after a rest              all lanes not reset in the last 2 s: the rest may have used up 10 s
//
// PROBE_RTT stops a lane for 200 ms. Lanes that were started together would reach PROBE_RTT together: the path runs
// dry, and overflows afterwards, when what waited in them leaves at once. The pacing rate prevents queues already, so
// no lane needs PROBE_RTT.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "daemon/flow/backoff.h"
#include "proto/clock.h"

namespace ringway::flow {

// One lane at one moment.
struct LaneRate {
  double rate = 0;  // bytes per second that congestion control allows; 0: not known, or not to be judged
  bool sending = false;
};

class LaneRenewal {
 public:
  // `pace`: the pair's rate limit in bytes per second; 0: none. Returns the lanes that are to be reset.
  std::vector<std::size_t> Judge(std::span<const LaneRate> lanes, double pace, TimePoint now);
  // Likewise, when the pair sends again after a rest.
  std::vector<std::size_t> AfterRest(double pace, TimePoint now);

 private:
  void TakeTurn(std::span<const LaneRate> lanes, TimePoint now, std::vector<std::size_t>& out);

  struct Lane {
    TimePoint reset_at{};
    Backoff pause;
  };
  std::vector<Lane> lanes_;
  TimePoint last_turn_{};
};

}  // namespace ringway::flow
