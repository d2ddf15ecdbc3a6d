#include "daemon/agreement/op_shapes.h"

#include <algorithm>
#include <string>

namespace ringway::agreement {

collective::Shape ShapeIn(const Submission& submission, std::uint32_t world_size, Rank self) {
  if (submission.layout != nullptr) return collective::ShapeOf(submission.descriptor, *submission.layout);
  return collective::ShapeOf(submission.descriptor, std::max(1U, world_size), self);
}

collective::Shape FirstShape(const Submission& submission, PeerId self, std::uint32_t world_size) {
  collective::Shape shape = ShapeIn(submission, world_size, Rank());
  if (submission.layout != nullptr) return shape;
  const Descriptor& descriptor = submission.descriptor;
  shape.input.count =
      SizesOf(descriptor.kind, descriptor.count, submission.spec.world_size, submission.root() == self).input;
  return shape;
}

Status RoomFor(const Submission& submission, PeerId self, std::uint32_t world_size) {
  const Descriptor& descriptor = submission.descriptor;
  const bool is_root = submission.root() == self;
  const std::uint64_t elements =
      submission.layout != nullptr
          ? submission.layout->total()
          : SizesOf(descriptor.kind, descriptor.count, std::max(1U, world_size), is_root).output;
  const std::uint64_t needed = elements * SizeOf(descriptor.dtype);
  const std::uint64_t room = submission.buffers->output_bytes_max();
  if (needed <= room) return Status::Ok();
  return {Code::kInvalidArgument, "the output has room for " + std::to_string(room) + " bytes, and a group of " +
                                      std::to_string(world_size) + " peers needs " + std::to_string(needed)};
}

}  // namespace ringway::agreement
