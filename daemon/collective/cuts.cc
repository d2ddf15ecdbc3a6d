#include "daemon/collective/cuts.h"

#include "proto/mutation.h"

namespace ringway::collective {
namespace {

Bounds ChunksOf(const Schedule& schedule, const Shape& shape, const Layout* layout, const Encoding& codec) {
  if (!schedule.rank_parts) return WeightedChunks(shape.count, schedule.weights, GridElements(codec));
  if (layout == nullptr) return PartChunks(shape.count, schedule.chunks());
  Bounds bounds = {0};
  for (const std::uint64_t count : layout->counts) bounds.push_back(bounds.back() + count);
  return bounds;
}

}  // namespace

Cuts::Cuts(const Schedule& schedule, const Descriptor& descriptor, const Shape& shape, const Layout* layout,
           std::uint64_t segment_bytes_max)
    : grid_(Grid::OfRanges({}, SizeOf(descriptor.dtype), segment_bytes_max, GridElements(descriptor.codec))),
      kind_(descriptor.kind) {
  const std::uint64_t element_bytes = SizeOf(descriptor.dtype);
  const std::uint64_t unit = GridElements(descriptor.codec);
  if (descriptor.kind == OpKind::kAllToAllV) {
    grid_ = Grid::OfRanges(layout->Parts(), element_bytes, segment_bytes_max, unit);
    sends_ = Grid::OfRanges(layout->sends, element_bytes, segment_bytes_max, unit);
  } else {
    grid_ = Grid(ChunksOf(schedule, shape, layout, descriptor.codec), element_bytes, segment_bytes_max, unit);
  }
}

Range Cuts::SentRange(const Departure& departure, std::uint32_t segment) const {
  const std::uint16_t chunk = InputChunkOf(kind_, departure);
  if (!sends_) return grid_.Segment(chunk, segment);
  Range range = sends_->Segment(chunk, segment);
  if (RINGWAY_MUTANT(kSendAnothersPart)) range.begin -= range.begin > 0 ? 1 : 0;
  return range;
}

}  // namespace ringway::collective
