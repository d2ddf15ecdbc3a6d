// The hashes of a finished result in its trainer's memory, so that bytes which the trainer has overwritten are not
// served to other ranks.
//
// A result is sealed segment by segment, with the hash of its bytes on the wire: the same on every rank. A segment that
// was never sent has none; the first Copy seals it, because no other rank has it yet.
//
// Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/kernels/codec.h"
#include "proto/collective/grid.h"
#include "proto/segment_header.h"

namespace ringway::collective {

// Hash of the wire encoding of `count` elements at `source`; finished ones need no dither.
std::uint64_t WireHash(const Descriptor& descriptor, const std::byte* source, std::uint64_t count,
                       const kernels::Dither* dither = nullptr);

class ResultSeal {
 public:
  struct Segment {
    Range range;             // elements, not empty
    std::uint64_t hash = 0;  // of the wire bytes; 0: not known yet
  };

  ResultSeal() = default;
  // REQUIRES: the segments are in the order of the buffer, without gaps.
  ResultSeal(const Descriptor& descriptor, std::vector<Segment> segments)
      : descriptor_(descriptor), segments_(std::move(segments)) {}

  // Copies these elements of `output`, once, and checks the copy; nullopt if a segment does not match its hash. Reads
  // all of every segment that `range` touches.
  std::optional<std::vector<std::byte>> Copy(const std::byte* output, const Range& range);

 private:
  Descriptor descriptor_;
  std::vector<Segment> segments_;
};

}  // namespace ringway::collective
