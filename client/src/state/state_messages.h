// What a newcomer and a member say to each other in their group of two (abi::StateGroup), as sends and recvs of 64-bit
// words.
//
//   newcomer                  member
//     PieceRequest          -->              one for each piece that it wants, several at once
//                      <--    Answer    at the end of a step, in the order of the requests
//                      <--    content   after an Answer of kContent
//     PieceRequest kNoMore  -->              both leave the group
//
// A piece is asked for with the hash of what the newcomer has of it, so the same request fetches it, or finds out that
// nothing has changed. Both ends treat what comes as hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/src/state/choose.h"

namespace ringway::internal {

inline constexpr std::uint32_t kRequestTag = 0;
inline constexpr std::uint32_t kAnswerTag = 1;
inline constexpr std::uint32_t kContentTag = 2;

struct PieceRequest {
  static constexpr std::uint64_t kNoMore = UINT64_MAX;

  std::uint64_t layout = 0;  // StateBytes::layout
  std::uint64_t piece = kNoMore;
  Hash held;
};
inline constexpr std::size_t kRequestWords = sizeof(PieceRequest) / sizeof(std::uint64_t);
static_assert(kRequestWords == 4);

enum class Answer : std::uint64_t {
  kSame,      // the newcomer has it
  kContent,   // it follows
  kChanging,  // the state changes with each step: it would be of no use when the newcomer is admitted
  kRefused,   // another layout, no such piece, or no room
};

// Requests of a newcomer to one member that have no answer yet: what a member can copy at the end of one step.
inline constexpr std::size_t kRequestsMax = 16;

// How often either end forms their group anew after a failure.
inline constexpr int kStateTriesMax = 3;

// Smaller states are taken at the admission, which stops nobody for long.
inline constexpr std::size_t kTakenBytesMin = std::size_t{64} << 20;

}  // namespace ringway::internal
