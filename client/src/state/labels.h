// The tensors of a state in words, for the error of ranks whose states do not go together.
//
//   4 bytes    length of the label, little-endian
//   ..         "weights" of float32[3, 4] (48 bytes)
//
// for each tensor, one after the other.
//
// Pure.
#pragma once

#include <cstddef>
#include <ringway/shared_state.hpp>
#include <string>

namespace ringway::internal {

// A list ends before it would be longer; what differs behind that is not named.
inline constexpr std::size_t kLabelsBytesMax = std::size_t{16} << 20;

// REQUIRES: `labels` is what this function made of the tensors before.
void AddLabel(const StateTensor& tensor, std::string* labels);

// The tensors of one rank.
struct RankLabels {
  std::size_t rank = 0;
  std::string labels;  // of another rank: anything
};

// What a sentence of FirstDifference has room for on its way to other ranks.
inline constexpr std::size_t kDifferenceBytesMax = 1024;

// The first difference as a sentence without its end, which names both ranks.
std::string FirstDifference(const RankLabels& one, const RankLabels& other);

}  // namespace ringway::internal
