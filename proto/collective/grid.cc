#include "proto/collective/grid.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "proto/check.h"

namespace ringway::collective {
namespace {

// Large chunks are cut into full segments; small ones into about this many, so that the ring's steps overlap.
constexpr std::uint64_t kSegmentsPerChunk = 4;

std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

struct Cut {
  std::uint64_t element_bytes = 1;
  std::uint64_t segment_bytes_max = 0;
  std::uint64_t unit = 1;
};
// Elements of a segment if the longest chunk has `longest`.
std::uint64_t SegmentElements(std::uint64_t longest, const Cut& cut) {
  const std::uint64_t wanted = std::clamp(longest * cut.element_bytes / kSegmentsPerChunk,
                                          std::min(kSegmentBytesMin, cut.segment_bytes_max), cut.segment_bytes_max);
  return std::max<std::uint64_t>(1, wanted / cut.element_bytes / cut.unit) * cut.unit;
}

}  // namespace

Bounds WeightedChunks(std::uint64_t count, std::span<const std::uint32_t> weights, std::uint64_t unit) {
  const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  RINGWAY_CHECK(total >= 1);
  const std::uint64_t blocks = CeilDiv(count, unit);
  std::uint64_t before = 0;
  Bounds bounds = {0};
  for (const std::uint32_t weight : weights) {
    before += weight;
    const std::uint64_t end = blocks / total * before + blocks % total * before / total;  // cannot overflow
    bounds.push_back(std::min(end * unit, count));
  }
  return bounds;
}

Bounds PartChunks(std::uint64_t count, std::uint32_t world_size) {
  Bounds bounds;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) bounds.push_back(PartOf(count, world_size, rank).begin);
  bounds.push_back(count);
  return bounds;
}

Grid::Grid(Bounds bounds, std::uint64_t element_bytes, std::uint64_t segment_bytes_max, std::uint64_t unit)
    : Grid(element_bytes) {
  RINGWAY_CHECK(bounds.size() >= 2 && element_bytes >= 1 && segment_bytes_max >= unit * element_bytes);
  std::uint64_t longest = 0;
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    chunks_.push_back({bounds[i - 1], bounds[i] - bounds[i - 1]});
    longest = std::max<std::uint64_t>(longest, chunks_.back().count);
  }
  segment_elements_.assign(chunks_.size(), SegmentElements(longest, {element_bytes, segment_bytes_max, unit}));
}

Grid Grid::OfRanges(std::vector<Range> chunks, std::uint64_t element_bytes, std::uint64_t segment_bytes_max,
                    std::uint64_t unit) {
  RINGWAY_CHECK(element_bytes >= 1 && segment_bytes_max >= unit * element_bytes);
  Grid grid(element_bytes);
  grid.chunks_ = std::move(chunks);
  for (const Range& chunk : grid.chunks_)
    grid.segment_elements_.push_back(SegmentElements(chunk.count, {element_bytes, segment_bytes_max, unit}));
  return grid;
}

std::uint32_t Grid::Segments(std::uint32_t chunk) const {
  const std::uint64_t segments = CeilDiv(Chunk(chunk).count, segment_elements_[chunk]);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, segments));
}

Range Grid::Segment(std::uint32_t chunk, std::uint32_t segment) const {
  const Range& whole = Chunk(chunk);
  const std::uint64_t elements = segment_elements_[chunk];
  const std::uint64_t begin = std::min<std::uint64_t>(segment * elements, whole.count);
  return {whole.begin + begin, std::min<std::uint64_t>(elements, whole.count - begin)};
}

}  // namespace ringway::collective
