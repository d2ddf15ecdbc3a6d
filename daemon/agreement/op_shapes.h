// The memory that a submission reads and writes: before it starts, in a view, and when its result is fetched.
#pragma once

#include <cstdint>

#include "daemon/agreement/peer_values.h"
#include "proto/collective/shape.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

// Returns the shape in a world of this size. REQUIRES: the submission has no root, or it is of this rank in its
// descriptor.
collective::Shape ShapeIn(const Submission& submission, std::uint32_t world_size, Rank self);

// Until it starts.
collective::Shape FirstShape(const Submission& submission, PeerId self, std::uint32_t world_size);

// kInvalidArgument: its output has no room for what a world of this size makes of it.
Status RoomFor(const Submission& submission, PeerId self, std::uint32_t world_size);

}  // namespace ringway::agreement
