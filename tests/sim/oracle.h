// What an operation's trainers put in, and what must come out. Pure functions of names, so nobody has to keep inputs.
//
// Elements are small whole numbers, so that every sum and product of them is exact in every dtype, in any order.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::sim {

std::vector<std::byte> InputOf(PeerId peer, const OpName& op, const Descriptor& descriptor);

// Why `result` is not what `self` holds of what the collective makes of the contributors' inputs; empty if it is.
// Codecs may be off by their rounding. REQUIRES: a dtype that DescriptorIsSimulated() accepts.
std::string WhyWrong(std::span<const std::byte> result, const OpName& op, const Descriptor& descriptor,
                     std::span<const PeerId> contributors, PeerId self);

// f16 is left to the kernels' own tests.
bool DescriptorIsSimulated(const Descriptor& descriptor);

}  // namespace ringway::sim
