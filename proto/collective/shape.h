// What an operation reads and writes at one rank, by its collective and the world size.
//
// Units: elements of one buffer that all ranks see alike, the operation's: what its chunks cut (grid.h). A rank's
// output memory is that buffer; its input memory holds a range of it.
#pragma once

#include <cstdint>

#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

using Range = Part;

struct Shape {
  std::uint64_t count = 0;  // of the buffer
  Range input;              // what this rank contributes
  bool shared = true;       // every rank ends with all of it, so that one that lacks it can get it from any other
};

// REQUIRES: world_size * descriptor.count does not overflow, self < world_size.
inline Shape ShapeOf(const Descriptor& descriptor, std::uint32_t world_size, Rank self) {
  const std::uint64_t count = descriptor.count;
  const bool gathers = descriptor.kind == OpKind::kAllGather;
  return {.count = gathers ? world_size * count : count,
          .input = {gathers ? self.value * count : 0, count},
          .shared = descriptor.kind != OpKind::kReduceScatter || world_size == 1};
}

}  // namespace ringway::collective
