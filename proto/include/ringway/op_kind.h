// The collectives: what each reads and writes, and what follows from that.
//
// Header-only, C++17, standard library only; ringway/types.h includes it. The numbers are part of the local ABI and of
// the wire format: never renumber, only append.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringway {

// The kind of an operation. kUpdateView agrees on adopting a prepared membership; it carries no elements. What the
// collectives read and write at rank r of K, with `count` elements:
//
//   kAllReduce      input count       output count; all of it is the result, the same on all ranks
//   kAllGather      input count       output K * count: the inputs in rank order, the same on all ranks
//   kReduceScatter  input count       output count, of which PartOf(count, K, r) is the result; the rest is work space
//   kBroadcast      root: count       output count: the root's input, the same on all ranks
//   kReduce         input count       output count: the result at the root, elsewhere work space
//   kGather         input count       root: K * count, the inputs in rank order
//   kScatter        root: K * count   output count: the r-th part of the root's input
//   kAllToAll       input K * count   output K * count: the r-th parts of all inputs, in the order of their ranks
//   kBarrier        nothing           nothing; it is over when all have submitted it
//
// With counts of their own for each rank, where `count` is their sum (of kAllToAllV the output's):
//
//   kAllToAllV      a range for each rank, which may overlap    output: what comes from each rank, in rank order
//   kAllGatherV     input counts[r]                             output count: the inputs in rank order
//   kReduceScatterV input count                                 output count, of which the r-th counts[r] are
//                                                               the result
//
// Between two ranks, which nobody else takes part in:
//
//   kSend           input count       nothing
//   kRecv           nothing           output count: the input of the other one's kSend
enum class OpKind : std::uint8_t {
  kAllReduce = 0,
  kUpdateView,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  kAllToAllV,
  kAllGatherV,
  kReduceScatterV,
  kSend,
  kRecv
};
inline constexpr std::uint8_t kOpKindCount = 15;

// Returns whether it is one end of a message from one rank to another; else all ranks take part, as in a collective.
constexpr bool IsMessage(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

// Returns whether one rank has a part that the others have not.
constexpr bool HasRoot(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather || kind == OpKind::kScatter;
}
// Returns whether it adds up; else it moves elements, and its ReduceOp is kSum.
constexpr bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce ||
         kind == OpKind::kReduceScatterV;
}
// Returns whether each rank has a count of its own.
constexpr bool HasCounts(OpKind kind) {
  return kind == OpKind::kAllToAllV || kind == OpKind::kAllGatherV || kind == OpKind::kReduceScatterV;
}
// Returns whether each rank hears from every other one, so that the end of the operation at one says that all have
// begun it.
constexpr bool HearsFromAll(OpKind kind) { return !HasRoot(kind) && kind != OpKind::kAllToAllV && !IsMessage(kind); }
// Returns whether every rank ends with the same elements.
constexpr bool IsTheSameOnAll(OpKind kind) {
  return kind != OpKind::kReduceScatter && kind != OpKind::kReduce && kind != OpKind::kGather &&
         kind != OpKind::kScatter && kind != OpKind::kAllToAll && kind != OpKind::kAllToAllV &&
         kind != OpKind::kReduceScatterV && !IsMessage(kind);
}
// Returns whether an input has a part for each rank, or each rank a count, so that it fits one world only.
constexpr bool IsForOneWorld(OpKind kind) {
  return kind == OpKind::kScatter || kind == OpKind::kAllToAll || HasCounts(kind);
}
// Returns whether its count is that of one rank's part, of which a buffer has all.
constexpr bool CountsByRank(OpKind kind) {
  return kind == OpKind::kAllGather || kind == OpKind::kGather || kind == OpKind::kScatter || kind == OpKind::kAllToAll;
}
// Returns whether it carries no elements.
constexpr bool IsEmpty(OpKind kind) { return kind == OpKind::kUpdateView || kind == OpKind::kBarrier; }

// Elements of the buffers of a collective at one rank.
struct Sizes {
  std::size_t input = 0;
  std::size_t output = 0;
};
// REQUIRES: not HasCounts(kind), world_size * count does not overflow.
constexpr Sizes SizesOf(OpKind kind, std::size_t count, std::uint32_t world_size, bool is_root) {
  const std::size_t all = world_size * count;
  switch (kind) {
    case OpKind::kAllGather:
      return {count, all};
    case OpKind::kBroadcast:
      return {is_root ? count : 0, count};
    case OpKind::kGather:
      return {count, is_root ? all : 0};
    case OpKind::kScatter:
      return {is_root ? all : 0, count};
    case OpKind::kAllToAll:
      return {all, all};
    case OpKind::kUpdateView:
    case OpKind::kBarrier:
      return {0, 0};
    case OpKind::kSend:
      return {count, 0};
    case OpKind::kRecv:
      return {0, count};
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kReduce:
    case OpKind::kAllToAllV:
    case OpKind::kAllGatherV:
    case OpKind::kReduceScatterV:
      break;
  }
  return {count, count};
}

// Elements of a buffer.
struct Part {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// Returns the part of `rank` of `count` elements cut into equal parts, in rank order; the last ones may be shorter, or
// empty.
// REQUIRES: rank < world_size.
constexpr Part PartOf(std::size_t count, std::uint32_t world_size, std::uint32_t rank) {
  const std::size_t whole = count / world_size + (count % world_size != 0 ? 1 : 0);
  const std::size_t begin = whole * rank < count ? whole * rank : count;
  return {begin, whole < count - begin ? whole : count - begin};
}

// Returns where in the output of such a collective the result is. For kReduceScatterV it is all of the output, because
// the counts determine its parts. REQUIRES: world_size * count does not overflow.
constexpr Part ResultOf(OpKind kind, std::size_t count, std::uint32_t world_size, std::uint32_t rank,
                        bool is_root = false) {
  if (kind == OpKind::kReduceScatter) return PartOf(count, world_size, rank);
  if (kind == OpKind::kReduce && !is_root) return {0, 0};
  return {0, SizesOf(kind, count, world_size, is_root).output};
}

constexpr const char* NameOf(OpKind kind) {
  constexpr const char* kNames[] = {"all_reduce",   "update_view",  "all_gather",       "reduce_scatter", "broadcast",
                                    "reduce",       "gather",       "scatter",          "all_to_all",     "barrier",
                                    "all_to_all_v", "all_gather_v", "reduce_scatter_v", "send",           "recv"};
  return static_cast<std::uint8_t>(kind) < kOpKindCount ? kNames[static_cast<std::uint8_t>(kind)] : "?";
}

}  // namespace ringway
