// Carries packets in transit. Pure: the caller passes the time, randomness comes from the scenario's seed.
//
//   a packet that opens a connection to a host that lets none in is dropped at once. Others:
//   sender --> uplink (rate, drop-tail queue) --> policer (a token bucket) --> the site's uplink (rate, queue; unless
//   the receiver is there, too) --> path (rate, queue, loss, corruption, delay, jitter) --> downlink (rate, queue) -->
//   receiver
//
// A super-packet is judged segment by segment, by a queue as a whole where the scenario says so (Drops); what survives
// in one piece arrives in one piece, when its last byte does. A path reorders only where the scenario says so. Where
// the uplink's queue is the sender's device, the uplink only takes the time that its bytes take, and drops nothing.
//
// Where packets of several senders meet after different times (a site's uplink behind its hosts', a downlink), the
// order of sending is not that of meeting: such a packet stops there (Delivery::next), and goes on by Advance when its
// time has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/wan/packet.h"
#include "tests/wan/scenario.h"

namespace ringway::wan {

using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

enum class Stage : std::uint8_t { kUplink, kSiteUplink, kDownlink, kArrived };

// A run of segments that is at `next` when it is due.
struct Delivery {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  TimePoint due;
  bool corrupt = false;
  std::uint64_t random = 0;  // for Corrupt
  Stage next = Stage::kArrived;
};

struct Traffic {
  std::uint64_t packets = 0;     // MTU-sized, that were sent
  std::uint64_t bytes = 0;       // of them
  std::uint64_t overflowed = 0;  // at queues
  std::uint64_t policed = 0;
  std::uint64_t lost = 0;
  std::uint64_t turned_away = 0;  // at the receiver's door
  std::uint64_t corrupted = 0;
};

class Network {
 public:
  explicit Network(Scenario scenario);

  // Everything but the hosts may change while it runs; what is under way is not touched. REQUIRES: as many hosts.
  void Change(Scenario scenario);

  // The schedules of the uplinks' rates begin now (anew). A packet that was queued before a change leaves at the old
  // rate.
  void StartSchedule(TimePoint now) { schedule_start_ = now; }

  // REQUIRES: from != to, both hosts.
  std::vector<Delivery> Send(std::size_t from, std::size_t to, const PacketInfo& packet, TimePoint now) {
    return Advance(Stage::kUplink, from, to, packet, now);
  }

  // Carries the packet of a delivery further. REQUIRES: `stage` is its next, not kArrived, `now` when it was due; calls
  // by `now`.
  std::vector<Delivery> Advance(Stage stage, std::size_t from, std::size_t to, const PacketInfo& info, TimePoint now);

  const Traffic& traffic(std::size_t from, std::size_t to) const { return flows_[from][to].traffic; }
  const Scenario& scenario() const { return scenario_; }

 private:
  struct Flow {
    TimePoint free_at;
    TimePoint last_due;
    Nanoseconds jitter{};
    TimePoint jitter_until;
    std::mt19937_64 dice;
    Traffic traffic;
  };
  struct Bucket {
    double missing_bytes = 0;  // that were taken and have not come back
    TimePoint at;
  };
  struct Segment {
    std::uint32_t index = 0;
    std::uint32_t bytes = 0;
    TimePoint at;
    bool corrupt = false;
  };
  // What is left of a super-packet.
  struct Packet {
    std::size_t from = 0, to = 0;
    std::vector<Segment> segments;  // by index
    Stage next = Stage::kUplink;
  };

  // Sets `at` of what the queue has room for to when it has left the pipe; returns how many segments are dropped.
  static std::uint64_t Pass(const Pipe& pipe, Drops drops, TimePoint* free_at, Packet* packet);
  static bool Conforms(const Policer& policer, Bucket* bucket, std::uint32_t bytes, TimePoint at);
  static Nanoseconds JitterOf(const Path& path, Flow* flow, TimePoint at);

  Pipe UplinkOf(std::size_t host, TimePoint now) const;
  // Each takes a packet through its stage, and says which is next; segments that are dropped are counted.
  void PassUplink(TimePoint now, Packet* packet);
  void PassSiteUplink(Packet* packet);
  void PassDownlink(Packet* packet);

  Scenario scenario_;
  TimePoint schedule_start_;
  std::vector<TimePoint> uplink_free_at_, downlink_free_at_;
  std::vector<Bucket> buckets_;
  std::vector<TimePoint> site_uplink_free_at_;  // by site
  std::vector<std::size_t> site_of_;            // a number for each host's
  std::vector<std::vector<Flow>> flows_;
};

}  // namespace ringway::wan
