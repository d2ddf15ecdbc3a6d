// What an operation reads and writes at one rank, by its collective and the world size.
//
// Units: elements of one buffer that all ranks see alike, the operation's: what its chunks cut (grid.h). A rank's
// input and output memory hold a range of it each. In an all-to-all each rank has a buffer of its own: chunk r of the
// input goes to rank r, that of the output comes from it. In an all-to-all with counts by rank these differ in length,
// too: the buffer is the output.
#pragma once

#include <cstdint>

#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

struct Shape {
  std::uint64_t count = 0;  // of the buffer
  Range input;              // what this rank contributes
  Range output;             // what its output memory holds: results, or sums that it sends on
  // Every rank ends with all of it and is done when all have contributed: one that lacks it gets it from any other. If
  // not, the operation is done when each rank is.
  bool shared = true;
};

inline bool IsRoot(const Descriptor& descriptor, Rank self) {
  return HasRoot(descriptor.kind) && Rank(descriptor.root) == self;
}

// REQUIRES: world_size * descriptor.count does not overflow, self < world_size.
inline Shape ShapeOf(const Descriptor& descriptor, std::uint32_t world_size, Rank self) {
  const OpKind kind = descriptor.kind;
  const std::uint64_t count = descriptor.count;
  const bool is_root = IsRoot(descriptor, self);
  const Sizes sizes = SizesOf(kind, count, world_size, is_root);
  const std::uint64_t all = CountsByRank(kind) ? world_size * count : count;
  const std::uint64_t own = CountsByRank(kind) ? self.value * count : 0;
  return {.count = all,
          .input = {sizes.input == all ? 0 : own, sizes.input},
          .output = {sizes.output == all ? 0 : own, sizes.output},
          .shared = world_size == 1 || (IsTheSameOnAll(kind) && !HasRoot(kind))};
}

// The shape of an operation with counts by rank. REQUIRES: HasCounts(kind), and the layout's sums do not overflow.
inline Shape ShapeOf(const Descriptor& descriptor, const Layout& layout) {
  const std::uint64_t all = layout.total();
  Shape shape{.count = all, .input = {0, all}, .output = {0, all}, .shared = IsTheSameOnAll(descriptor.kind)};
  if (descriptor.kind == OpKind::kAllToAllV) shape.input.count = layout.sent_upto();
  if (descriptor.kind == OpKind::kAllGatherV) shape.input = layout.PartOf(layout.self);
  return shape;
}

}  // namespace ringway::collective
