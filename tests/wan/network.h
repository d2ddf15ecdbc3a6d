// What happens to a packet in transit. Pure: the caller passes the time, randomness comes from the scenario's seed.
//
//   sender --> uplink (rate, drop-tail queue) --> the site's way out (the same, unless the receiver is there, too)
//          --> path (rate, queue, loss, corruption, delay) --> receiver
//
// A super-packet is judged segment by segment; what survives in one piece arrives in one piece, when its last byte
// does. A path never reorders.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/wan/packet.h"
#include "tests/wan/scenario.h"

namespace ringway::wan {

using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

// A run of segments that arrives.
struct Delivery {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  TimePoint due;
  bool corrupt = false;
  std::uint64_t random = 0;  // for Corrupt
};

struct Traffic {
  std::uint64_t packets = 0;  // MTU-sized, that were sent
  std::uint64_t bytes = 0;    // of them
  std::uint64_t overflowed = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupted = 0;
};

class Network {
 public:
  explicit Network(Scenario scenario);

  // Everything but the hosts may change while it runs; what is under way is not touched. REQUIRES: as many hosts.
  void Change(Scenario scenario);

  // REQUIRES: from != to, both hosts.
  std::vector<Delivery> Send(std::size_t from, std::size_t to, const PacketInfo& packet, TimePoint now);

  const Traffic& traffic(std::size_t from, std::size_t to) const { return flows_[from][to].traffic; }
  const Scenario& scenario() const { return scenario_; }

 private:
  struct Flow {
    TimePoint free_at;
    TimePoint last_due;
    std::mt19937_64 dice;
    Traffic traffic;
  };

  // When the bytes have left the pipe, or false: its queue is full.
  static bool Pass(const Pipe& pipe, TimePoint* free_at, std::uint32_t bytes, TimePoint* at);

  Scenario scenario_;
  std::vector<TimePoint> uplink_free_at_;
  std::vector<TimePoint> way_out_free_at_;  // by site
  std::vector<std::size_t> site_of_;        // a number for each host's
  std::vector<std::vector<Flow>> flows_;
};

}  // namespace ringway::wan
