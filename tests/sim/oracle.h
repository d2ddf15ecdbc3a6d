// Inputs and expected results of operations. Pure functions of names, so that no inputs are stored.
//
// Elements are small integers, so that every sum and product of them is exact in every dtype, in any order.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::sim {

// A trainer's arguments beside the descriptor, whose `root` is not used.
struct Laid {
  PeerId root;
  std::uint32_t world_size = 1;  // that it knows
  std::uint32_t rank = 0;        // its own there
};

// Returns the counts by rank of an operation, drawn from its descriptor's `count` by the same function at all ranks.
// Many are 0.
collective::Layout LayoutOf(const OpName& op, const Descriptor& descriptor, std::uint32_t world_size,
                            std::uint32_t rank);
// Returns the descriptor as it is submitted.
Descriptor WithCounts(Descriptor descriptor, const collective::Layout& layout);
// Returns where in a rank's output its result is.
Part ResultAt(const OpName& op, const Descriptor& descriptor, std::uint32_t world_size, std::uint32_t rank,
              bool is_root);

std::vector<std::byte> InputOf(PeerId peer, const OpName& op, const Descriptor& descriptor, const Laid& laid = {});

// Compares `result` with what `self` must hold of the collective of the contributors' inputs, within the codec's
// rounding. Returns the difference; empty if there is none. REQUIRES: a dtype that DescriptorIsSimulated() accepts.
// `absent`: contributors, as bits by their place, whose inputs are not in.
std::string WhyWrong(std::span<const std::byte> result, const OpName& op, const Descriptor& descriptor,
                     std::span<const PeerId> contributors, PeerId self, PeerId root = PeerId(),
                     std::uint64_t absent = 0);
// Returns the weight of a peer's input in an average.
double WeightOf(PeerId peer, const OpName& op);

// The tensor's name for error feedback (agreement::Submission); 0: none, as it loses nothing or the name is in use.
// `open`: descriptors of the operations under way.
std::uint64_t FeedbackOf(const Descriptor& descriptor, std::span<const Descriptor> open);

// Excludes f16, which the kernels' own tests cover, and elements where there are none, which the local server refuses.
bool DescriptorIsSimulated(const Descriptor& descriptor);

}  // namespace ringway::sim
