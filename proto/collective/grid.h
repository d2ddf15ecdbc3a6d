// The segment grid: how an operation's elements are cut into chunks and segments. Fixed for an operation by its
// descriptor, the world size and the plan, so every rank derives the same.
//
// Units: elements, unless a name says bytes. Segments begin at multiples of GridElements from their chunk's beginning,
// so blocks of the codec never straddle them. Empty chunks have one empty segment: they travel as a header alone.
// Segments are as long in all chunks, by the longest one; where two ranks know of one chunk only its length, each chunk
// has its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/collective/shape.h"

namespace ringway::collective {

inline constexpr std::uint64_t kGridElements = 256;
// kGridElements, or the codec's block where that is longer.
constexpr std::uint64_t GridElements(const Encoding& encoding) {
  return encoding.block > kGridElements ? encoding.block : kGridElements;
}
inline constexpr std::uint64_t kSegmentBytesMin = 16 * 1024;

// Where chunks begin, and the last ends.
using Bounds = std::vector<std::uint64_t>;

// Chunks as long as their weights among each other, to a multiple of `unit`; one without weight is empty. REQUIRES: any
// weight is above 0.
Bounds WeightedChunks(std::uint64_t count, std::span<const std::uint32_t> weights, std::uint64_t unit = kGridElements);
// Returns a chunk for each rank: its PartOf(count, world_size, rank).
Bounds PartChunks(std::uint64_t count, std::uint32_t world_size);

class Grid {
 public:
  // REQUIRES: element_bytes >= 1, segment_bytes_max >= unit * element_bytes.
  Grid(Bounds bounds, std::uint64_t element_bytes, std::uint64_t segment_bytes_max, std::uint64_t unit = kGridElements);

  // Cut each by itself. They may overlap, and be in any order.
  static Grid OfRanges(std::vector<Range> chunks, std::uint64_t element_bytes, std::uint64_t segment_bytes_max,
                       std::uint64_t unit = kGridElements);

  std::uint64_t element_bytes() const { return element_bytes_; }
  const Range& Chunk(std::uint32_t chunk) const { return chunks_[chunk]; }
  // At least 1.
  std::uint32_t Segments(std::uint32_t chunk) const;
  // Elements of the whole buffer. REQUIRES: chunk is one of them, segment < Segments(chunk).
  Range Segment(std::uint32_t chunk, std::uint32_t segment) const;

 private:
  explicit Grid(std::uint64_t element_bytes) : element_bytes_(element_bytes) {}

  std::vector<Range> chunks_;
  std::vector<std::uint64_t> segment_elements_;  // by chunk
  std::uint64_t element_bytes_;
};

}  // namespace ringway::collective
