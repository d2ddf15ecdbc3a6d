// The hashes of a finished result that lies in its trainer's memory, so that nobody is served bytes that the trainer
// has written there since.
//
// A result is sealed segment by segment, with the hash that its bytes had on the wire: the same on every rank. A
// segment that never travelled has none; it is sealed by the first Copy, because no other rank has it yet.
//
// Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proto/collective/grid.h"
#include "proto/segment_header.h"

namespace ringway::collective {

// Of the bytes that `count` elements at `source` become on the wire.
std::uint64_t WireHash(const Descriptor& descriptor, const std::byte* source, std::uint64_t count);

class ResultSeal {
 public:
  struct Segment {
    Range range;             // elements, not empty
    std::uint64_t hash = 0;  // of the wire bytes; 0: not known yet
  };

  ResultSeal() = default;
  // REQUIRES: the segments are in the order of the buffer and leave nothing out.
  ResultSeal(const Descriptor& descriptor, std::vector<Segment> segments)
      : descriptor_(descriptor), segments_(std::move(segments)) {}

  // A copy of these elements of `output`, taken once and then compared; nothing if one of its segments no longer fits
  // its hash. Reads all of every segment that `range` touches.
  std::optional<std::vector<std::byte>> Copy(const std::byte* output, const Range& range);

 private:
  Descriptor descriptor_;
  std::vector<Segment> segments_;
};

}  // namespace ringway::collective
