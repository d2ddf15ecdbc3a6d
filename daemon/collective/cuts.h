// Finds an operation's segments at one rank: in the buffer that all see, or, for an all_to_all_v, in an output cut by
// what comes from each rank, and an input cut by what goes to each.
//
// Units: elements of the buffer, as in Shape. Pure; nothing changes once it is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "proto/collective/grid.h"
#include "proto/collective/layout.h"
#include "proto/collective/schedule.h"
#include "proto/collective/shape.h"

namespace ringway::collective {

class Cuts {
 public:
  // `layout`: of kinds that HasCounts, else null.
  Cuts(const Schedule& schedule, const Descriptor& descriptor, const Shape& shape, const Layout* layout,
       std::uint64_t segment_bytes_max);

  // The grid of what is received and summed.
  const Grid& grid() const { return grid_; }
  // Returns whether what is sent is cut in another way.
  bool has_sends() const { return sends_.has_value(); }
  // The range of the rank's own contribution to the segment, in its input.
  Range OwnRange(std::uint32_t chunk, std::uint32_t segment) const {
    return sends_ ? sends_->Segment(chunk, segment) : grid_.Segment(chunk, segment);
  }
  std::uint32_t SegmentsOf(const Departure& departure) const {
    return sends_ ? sends_->Segments(departure.to.value) : grid_.Segments(departure.chunk);
  }
  // Returns the elements that the departure's segment is made of.
  Range SentRange(const Departure& departure, std::uint32_t segment) const;

 private:
  Grid grid_;
  std::optional<Grid> sends_;  // by receiver, of the input
  OpKind kind_;
};

}  // namespace ringway::collective
