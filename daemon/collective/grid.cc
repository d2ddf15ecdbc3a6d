#include "daemon/collective/grid.h"

#include <algorithm>

#include "proto/check.h"

namespace ringway::collective {
namespace {

// Large chunks are cut into full segments; small ones into about this many, so that the ring's steps overlap.
constexpr std::uint64_t kSegmentsPerChunk = 4;

std::uint64_t CeilDiv(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

Grid::Grid(std::uint64_t count, std::uint32_t chunks, std::uint64_t element_bytes, std::uint64_t segment_bytes_max)
    : count_(count), chunks_(chunks), element_bytes_(element_bytes) {
  RINGWAY_CHECK(chunks >= 1 && element_bytes >= 1 && segment_bytes_max >= kGridElements * element_bytes);
  const std::uint64_t largest = Chunk(0).count * element_bytes;
  const std::uint64_t wanted =
      std::clamp(largest / kSegmentsPerChunk, std::min(kSegmentBytesMin, segment_bytes_max), segment_bytes_max);
  segment_elements_ = std::max<std::uint64_t>(1, wanted / element_bytes / kGridElements) * kGridElements;
}

Range Grid::Chunk(std::uint32_t chunk) const {
  const std::uint64_t blocks = CeilDiv(count_, kGridElements);
  const std::uint64_t each = blocks / chunks_;
  const std::uint64_t longer = blocks % chunks_;  // the first chunks take one block more
  const std::uint64_t first = each * chunk + std::min<std::uint64_t>(chunk, longer);
  const std::uint64_t end = first + each + (chunk < longer ? 1 : 0);
  const std::uint64_t begin = std::min(first * kGridElements, count_);
  return {begin, std::min(end * kGridElements, count_) - begin};
}

std::uint32_t Grid::Segments(std::uint32_t chunk) const {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, CeilDiv(Chunk(chunk).count, segment_elements_)));
}

Range Grid::Segment(std::uint32_t chunk, std::uint32_t segment) const {
  const Range whole = Chunk(chunk);
  const std::uint64_t begin = std::min(segment * segment_elements_, whole.count);
  return {whole.begin + begin, std::min(segment_elements_, whole.count - begin)};
}

}  // namespace ringway::collective
