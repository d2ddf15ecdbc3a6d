// Time of a schedule on measured paths: its segments through the pipes that they use, in the order in which they become
// ready. Pure; what cost_model prices with.
//
// Units: seconds, bytes, bytes per second.
//
//   a segment uses     inside a host    the host's memory
//                      between hosts    the sender's uplink, the path of the two hosts, the receiver's downlink
//                      between sites    also the uplink of the sender's site
//   peers of one host share all of these.
//
// Each pipe takes segments one after the other, and a segment flows through all of its pipes at once: it has left when
// the last pipe is through with it, and arrives a delay later. An input is ready at once; a sum or a finished chunk is
// when that segment of all that it is made of has arrived (cut-through). Segments that are ready at the same time take
// turns: the first of every chunk, then the second. So pipes are shared fairly, and idle only where nothing waits.
//
// Chunks are cut as by the segment grid, but into fewer segments where there are many transfers. Segments that are few
// are cut into pieces that take the turns, so that none holds up all others. Not modelled: CPU, slow start, segment
// headers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "master/planning/path_matrix.h"
#include "proto/collective/schedule.h"

namespace ringway {

class FlowModel {
 public:
  // REQUIRES: `paths` has no unknowns.
  explicit FlowModel(const PathMatrix& paths);

  // A schedule's transfers as the model has them; for any size.
  struct Flows {
    struct Flow {
      std::array<std::uint32_t, 4> pipes = {};  // kNoPipe: none
      double delay = 0;
      std::uint32_t chunk = 0;
      std::uint32_t waits_for = 0;       // flows
      std::vector<std::uint32_t> feeds;  // flows that wait for this one
    };
    std::vector<double> parts;  // of the buffer, by chunk
    std::vector<Flow> flows;
    double money = 0;    // what a byte of the buffer costs
    double busiest = 0;  // of the pipe that is busy for the longest: seconds per byte of the buffer
  };
  Flows FlowsOf(const collective::Transfers& transfers) const;

  // Returns when the last segment arrives. If that is later than `limit`, the result is over `limit`, but not exact.
  double Seconds(const Flows& flows, double bytes, std::uint64_t segment_bytes_max, double limit) const;

  // Returns the longest delay of all paths; 0 for one peer.
  double longest_delay() const { return longest_delay_; }

 private:
  double BusiestOf(const Flows& flows) const;

  static constexpr std::uint32_t kNoPipe = ~std::uint32_t{0};

  struct Way {
    std::array<std::uint32_t, 4> pipes = {};
    double delay = 0;
    double money = 0;
  };

  std::size_t peers_;
  std::vector<Way> ways_;                 // by pair
  std::vector<double> seconds_per_byte_;  // by pipe
  double longest_delay_ = 0;
};

}  // namespace ringway
