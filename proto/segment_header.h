// The header of a segment on a lane: 96 bytes, little-endian, followed by payload_bytes of payload.
//
//   offset size field
//        0    4 magic "RWS1"
//        4    1 kind          SegmentKind
//        5    1 dtype         descriptor of the operation ...
//        6    1 op
//        7    1 codec
//        8    8 epoch         view in which the segment was computed
//       16    8 seq           operation, with channel
//       24    4 channel
//       28    4 payload_bytes 0 .. kPayloadBytesMax; 0 for empty chunks
//       32    4 segment       position: segment of the chunk ...
//       36    2 step          ... of the schedule's step
//       38    2 chunk         ... of the buffer
//       40    8 count         elements of the whole operation
//       48    8 prepared      highest prepared epoch, min over the contributors so far
//       56    8 acknowledged  operations of the channel complete up to here, min over the contributors so far
//       64    8 payload_hash  XXH3-64 of the payload
//       72    1 op_kind       OpKind
//       73    1 schedule      Algorithm
//       74    1 block         of the codec, as a power of two; 0: its own
//       75    1 rounding      Rounding
//       76    1 root          its rank, of the kinds that have one
//       77    1 quorum        of the ranks whose inputs are awaited (Descriptor)
//       78    1 flags         1: a weighted average
//       79    1 reserved      zero
//       80    8 layout        of the kinds that have counts by rank, or whose inputs an all-reduce is without
//                             (Descriptor); the tag of a message
//       88    8 header_hash   XXH3-64 of bytes 0 .. 87
//
// The header carries the whole descriptor rather than a hash of it, so a mismatch can name both sides. The offset in
// the buffer is not carried: the grid (collective/grid.h) derives it from the position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

inline constexpr std::size_t kSegmentHeaderBytes = 96;
inline constexpr std::uint32_t kPayloadBytesMax = 1 << 20;

// kProbe: the receiver skips the frame, whatever else its header says. Sent to measure the path and, without payload,
// after a lane's last segment, so that TCP detects a loss there (lane_set.h).
// kMessage: of a send to the receiver; its sequence number is that of its stream, whose tag is in `layout`.
// kEnd: the last frame of the lane from this side, whose connection another lane may take (daemon/net/lane.h); whatever
// else its header says. A daemon that does not know it closes the connection.
enum class SegmentKind : std::uint8_t { kData = 0, kFetched = 1, kProbe = 2, kMessage = 3, kEnd = 4 };
inline constexpr std::uint8_t kSegmentKindCount = 5;

// What all ranks must agree on for an operation.
struct Descriptor {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Encoding codec = Codec::kNone;
  Algorithm schedule = Algorithm::kRing;
  std::uint64_t count = 0;
  std::uint8_t root = 0;  // its rank in the view of the attempt, where the kind has one
  // A hash of the counts by rank, where the kind has them. An all_to_all_v has a descriptor for each pair of ranks,
  // which are all that know its counts: `count` goes from the lower one to the higher, `layout` the other way.
  // In an all-reduce it is without_from.
  std::uint64_t layout = 0;
  std::uint8_t quorum = 0;  // the code of a Quorum: how many inputs an all-reduce waits for; 0: all
  bool weighted = false;    // each input of an average has a weight of its own
  // Returns whether the ranks agree on the inputs, and their weights, before they sum.
  bool agrees_on_inputs() const { return quorum != 0 || weighted; }
  // Returns the lowest peer id whose input is not in an all-reduce: all members from it on, the newest, take part
  // without one, whether their trainers have submitted it or not. 0: all inputs are in.
  PeerId without_from() const { return PeerId(kind == OpKind::kAllReduce ? layout : 0); }
  // Returns whether some inputs may not be in, or weigh more than others.
  bool has_input_set() const { return agrees_on_inputs() || without_from() != PeerId(); }
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// "int8", or with what differs from its default: "int8 in blocks of 128, stochastic"
std::string ToString(const Encoding& encoding);
// "all_reduce of 1024 f32, sum, codec none, algorithm ring"
std::string ToString(const Descriptor& descriptor);

// Min-reduced over the contributors along the schedule, so that every result carries the same values.
struct Stamp {
  Epoch prepared;
  std::uint64_t acknowledged = 0;
};

// Returns the least of each: what both stand for.
inline Stamp Min(const Stamp& a, const Stamp& b) {
  return {std::min(a.prepared, b.prepared), std::min(a.acknowledged, b.acknowledged)};
}

struct SegmentHeader {
  SegmentKind kind = SegmentKind::kData;
  Epoch epoch;
  OpName op;
  Descriptor descriptor;
  std::uint16_t step = 0;
  std::uint16_t chunk = 0;
  std::uint32_t segment = 0;
  std::uint32_t payload_bytes = 0;
  Stamp stamp;
  std::uint64_t payload_hash = 0;
};

// Writes kSegmentHeaderBytes to `out`, with the header's own hash.
void EncodeSegmentHeader(const SegmentHeader& header, std::span<std::byte, kSegmentHeaderBytes> out);

// kProtocol if magic, hash, an enum or payload_bytes is invalid. Does not check the position: the executor does.
Result<SegmentHeader> DecodeSegmentHeader(std::span<const std::byte, kSegmentHeaderBytes> in);

}  // namespace ringway
