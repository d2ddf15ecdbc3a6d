// The residual that encoding takes from a sum at one rank, for error feedback (daemon/buffers/feedback.h), with an
// element for each of the rank's input. Every element is either sent on by a rank, as its input or as the sum so far,
// or finished by it.
//
//   sent on    value - what the others decode of it; of a scaled partial sum in units of contributions
//   finished   value - what all adopt; of an average as many times that as there are contributors, or as their weights
//              are, in units of the own one. Where all finish the same, each answers for some segments, besides what it
//              has sent
//
// It is added to what is there already: what the rounding of the contribution itself took. A rank that fetches a result
// of one-shot, which others finished, lacks its share of the finishing.
//
// Pure; one thread. Null memory: nothing is noted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/collective/shape.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

class QuantizationResidual {
 public:
  struct World {
    std::uint32_t size = 1;
    Rank self{};
    bool everyone_sums = false;
    double average_factor = 1;  // the sum of all weights, in units of the own one
  };
  // `loss`: as many elements as `input` has.
  QuantizationResidual(const Descriptor& descriptor, const Range& input, const World& world, float* loss)
      : descriptor_(descriptor), input_(input), world_(world), loss_(loss) {}

  bool wanted() const { return loss_ != nullptr; }
  // `value`, `decoded`, `adopted`: the range's elements. REQUIRES: wanted(), the range is in the input.
  // `scale`: the value is as many times a sum of contributions.
  void OnSent(const Range& range, const std::byte* value, const std::byte* decoded, double scale);
  void OnFinished(const Range& range, std::uint32_t segment, const std::byte* value, const std::byte* adopted);

 private:
  float* At(const Range& range) const { return loss_ + (range.begin - input_.begin); }

  const Descriptor descriptor_;
  const Range input_;
  const World world_;
  float* const loss_;
};

}  // namespace ringway::collective
