// Describes the tensors of a state in words, for the error of ranks whose states do not match.
//
//   4 bytes    length of the label, little-endian
//   the label  "weights" of float32[3, 4] (48 bytes)
//
// for each tensor, one after the other.
//
// Pure.
#pragma once

#include <cstddef>
#include <ringway/shared_state.hpp>
#include <string>

namespace ringway::internal {

// Limit for a list, which ends before the first label that would exceed it; later differences are not named.
inline constexpr std::size_t kLabelsBytesMax = std::size_t{16} << 20;

// REQUIRES: `labels` is what this function returned for the tensors before.
void AddLabel(const StateTensor& tensor, std::string* labels);

// The tensors of one rank.
struct RankLabels {
  std::size_t rank = 0;
  std::string labels;  // of another rank: anything
};

// Limit for a sentence of FirstDifference, which is sent to other ranks.
inline constexpr std::size_t kDifferenceBytesMax = 1024;

// Returns the first difference as a sentence that names both ranks, without its end.
std::string FirstDifference(const RankLabels& one, const RankLabels& other);

}  // namespace ringway::internal
