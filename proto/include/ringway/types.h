// The vocabulary that trainers, client library and daemon share: data types, reductions, codecs, error codes.
//
// Header-only, C++17, standard library only. The numeric values are part of the local ABI and of the wire format:
// never renumber, only append.
#pragma once

#include <ringway/op_kind.h>

#include <cstddef>
#include <cstdint>

namespace ringway {

// Element types. f16 is IEEE binary16, bf16 the upper half of binary32; both little-endian.
enum class DType : std::uint8_t { kU8 = 0, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBF16, kF32, kF64 };
inline constexpr std::uint8_t kDTypeCount = 12;

// min and max propagate NaN as NumPy's minimum and maximum do. avg divides the sum by the number of contributors and is
// an error for integers. Integer sums and products wrap.
enum class ReduceOp : std::uint8_t { kSum = 0, kAvg, kProd, kMin, kMax };
inline constexpr std::uint8_t kReduceOpCount = 5;

// How elements are encoded on the wire: the row of kCodecs.
enum class Codec : std::uint8_t { kNone = 0, kBf16, kInt8, kF16, kInt4, kInt8Zp, kInt4Zp, kFp8E4m3, kFp8E5m2 };

// Schedule of an all-reduce. With K ranks, one-way delay a and S bytes:
//
//   algorithm         delays    bytes a rank sends
//   ring              2(K-1) a  2(K-1)/K S
//   two_rings         as ring, half of the buffer in each direction
//   rings             as ring, a share of the buffer on each of several rings that have no path in common
//   direct            2 a       2(K-1)/K S; all-to-all reduce-scatter, then all-gather
//   one_shot          a         (K-1) S; for small buffers
//   tree, halving_doubling, naive (gather to one rank and broadcast)   as in the textbooks
//   hierarchical      inside each site first, then between sites
enum class Algorithm : std::uint8_t {
  kRing = 0,
  kTwoRings,
  kDirect,
  kOneShot,
  kTree,
  kHalvingDoubling,
  kNaive,
  kHierarchical,
  kRings
};
inline constexpr std::uint8_t kAlgorithmCount = 9;

// Outcome of a call or an operation. Every failure a user can meet has its own code.
enum class Code : std::uint32_t {
  kOk = 0,
  kInvalidArgument,    // a parameter is wrong; the text names it
  kDaemonUnreachable,  // nothing listens on the daemon's socket
  kVersionMismatch,    // the two sides speak different protocol versions
  kDaemonLost,         // the daemon died or closed the session; buffers are intact
  kTimeout,            // the deadline of this call passed; the operation goes on
  kMismatch,           // ranks submitted different kind, count, root, dtype, op, codec or algorithm for one operation
  kPeerLost,           // a peer was lost and the group was joined with fail_on_peer_loss, or the operation cannot be
                       // done without that peer: its root, or one that has a part in the input
  kWorldTooSmall,      // fewer peers than the group's minimum remain
  kCancelled,          // all ranks agreed to cancel the operation
  kEvicted,            // the other peers went on without this one; rejoin and take their state
  kJoinRefused,        // the master or daemon refused the join; the text says why
  kPeerUnreachable,    // a peer of the group cannot reach this peer, or the reverse
  kResourceExhausted,  // a limit (slots, regions, memory, descriptors) is reached
  kNotSupported,       // this combination is refused by name
  kForked,             // the session belongs to the parent process
  kLeft,               // the session has left its group
  kShuttingDown,       // the daemon is stopping and takes no new operations
  kMasterUnreachable,  // the daemon has no connection to the master
  kProtocol,           // the other side sent something the protocol does not allow
  kIo,                 // the operating system refused; the text carries its reason
  kInternal,           // a broken invariant that was contained; please report it
  kDeadline,           // the deadline of a rank for the operation passed; failed on all ranks
  kRejoined,  // the daemon went away, or the others evicted this peer; it has joined again, as a new one: take the
              // others' state first
  kBufferModified,  // this trainer wrote to memory of an operation in flight; the others went on without this peer
  kInterrupted,     // JoinOptions::interrupted ended this call, as a timeout would
  kDeviceFailed,    // a device did not copy input or output of the operation; the text has the driver's words
};
inline constexpr std::uint32_t kCodeCount = 27;

constexpr std::size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
      return 1;
    case DType::kU16:
    case DType::kI16:
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU32:
    case DType::kI32:
    case DType::kF32:
      return 4;
    case DType::kU64:
    case DType::kI64:
    case DType::kF64:
      return 8;
  }
  return 0;
}

constexpr bool IsInteger(DType dtype) { return dtype <= DType::kI64; }

constexpr std::uint16_t BitOf(DType dtype) {
  return static_cast<std::uint16_t>(1U << static_cast<std::uint8_t>(dtype));
}
inline constexpr std::uint16_t kEveryDType = (1U << kDTypeCount) - 1;
inline constexpr std::uint16_t kSmallFloats = BitOf(DType::kF16) | BitOf(DType::kBF16) | BitOf(DType::kF32);

// The facts about a codec that all layers use; daemon/kernels/codec.h defines its arithmetic, to the last bit.
struct CodecInfo {
  Codec codec;           // the row's index
  const char* name;      // in options and texts
  const char* summary;   // for documentation
  std::uint16_t dtypes;  // bit d: it encodes elements of DType d
  const char* refusal;   // of other dtypes

  // With blocks: each block of elements (the last may be shorter) is a header, then the elements' codes, padded to a
  // byte. Without: a floating-point format, an element's code after the other.
  struct {
    bool in_blocks;
    std::uint8_t header_bytes;
    std::uint8_t code_bits;  // 0: as in memory
  } layout;

  // An f32 satisfies |decode(encode(x)) - x| <= relative_max * m, if m, the largest magnitude in x's block, is within
  // these limits. f16 and bf16 add the rounding of the decoded value. A relative_max of 0 means lossless.
  struct {
    double relative_max;
    double magnitude_min, magnitude_max;
    double at_random_max;  // instead of relative_max, with stochastic rounding: a whole step
  } error;
};

// The codecs. Names, options, checks, sizes, tests and README all iterate this table.
inline constexpr CodecInfo kCodecs[] = {
    {Codec::kNone, "none", "as in memory", kEveryDType, "", {false, 0, 0}, {0.0, 0.0, 0x1.fffffffffffffp1023, 0.0}},
    {Codec::kBf16,
     "bf16",
     "bfloat16",
     BitOf(DType::kBF16) | BitOf(DType::kF32),
     "codec bf16 needs dtype bf16 or f32",
     {false, 0, 16},
     {0x1p-8, 0x1p-126, 0x1.fep127, 0x1p-7}},
    {Codec::kInt8,
     "int8",
     "-127 to 127 times the block's scale",
     kSmallFloats,
     "codec int8 needs dtype f16, bf16 or f32",
     {true, 4, 8},
     {0x1.0008p0 / 254, 0x1p-100, 0x1.fffffep127, 0x1.0008p0 / 127}},
    {Codec::kF16,
     "f16",
     "IEEE binary16; infinity from 65520 on",
     BitOf(DType::kF16) | BitOf(DType::kF32),
     "codec f16 needs dtype f16 or f32",
     {false, 0, 16},
     {0x1p-11, 0x1p-14, 65504, 0x1p-10}},
    {Codec::kInt4,
     "int4",
     "-7 to 7 times the block's scale",
     kSmallFloats,
     "codec int4 needs dtype f16, bf16 or f32",
     {true, 4, 4},
     {0x1.0008p0 / 14, 0x1p-100, 0x1.fffffep127, 0x1.0008p0 / 7}},
    {Codec::kInt8Zp,
     "int8_zp",
     "255 steps from the block's minimum to its maximum",
     kSmallFloats,
     "codec int8_zp needs dtype f16, bf16 or f32",
     {true, 8, 8},
     {0x1.0008p0 / 255, 0x1p-100, 0x1p126, 0x1.001p1 / 255}},
    {Codec::kInt4Zp,
     "int4_zp",
     "15 steps from the block's minimum to its maximum",
     kSmallFloats,
     "codec int4_zp needs dtype f16, bf16 or f32",
     {true, 8, 4},
     {0x1.0008p0 / 15, 0x1p-100, 0x1p126, 0x1.001p1 / 15}},
    {Codec::kFp8E4m3,
     "fp8_e4m3",
     "OCP E4M3 times the block's power of two",
     kSmallFloats,
     "codec fp8_e4m3 needs dtype f16, bf16 or f32",
     {true, 1, 8},
     {1.0 / 17, 0x1p-100, 0x1.dp127, 1.0 / 8}},
    {Codec::kFp8E5m2,
     "fp8_e5m2",
     "OCP E5M2 times the block's power of two",
     kSmallFloats,
     "codec fp8_e5m2 needs dtype f16, bf16 or f32",
     {true, 1, 8},
     {1.0 / 9, 0x1p-100, 0x1.ep127, 1.0 / 4}},
};
inline constexpr std::uint8_t kCodecCount = sizeof kCodecs / sizeof kCodecs[0];

// REQUIRES: codec < kCodecCount.
constexpr const CodecInfo& InfoOf(Codec codec) { return kCodecs[static_cast<std::uint8_t>(codec)]; }

constexpr bool AreCodecsInOrder() {
  for (std::uint8_t i = 0; i < kCodecCount; ++i) {
    if (kCodecs[i].codec != static_cast<Codec>(i)) return false;
  }
  return true;
}
static_assert(AreCodecsInOrder());

constexpr bool HasBlocks(Codec codec) {
  return static_cast<std::uint8_t>(codec) < kCodecCount && InfoOf(codec).layout.in_blocks;
}

// Elements of a block: a power of two.
inline constexpr std::uint16_t kBlockMin = 32;
inline constexpr std::uint16_t kBlockMax = 1024;
inline constexpr std::uint16_t kBlockDefault = 256;

// kStochastic: up or down with the odds of the distances, by a hash of group, operation, rank and position: the same on
// every attempt. A block's largest magnitude (smallest and greatest with a zero point) is always rounded to nearest.
enum class Rounding : std::uint8_t { kNearestEven = 0, kStochastic };
inline constexpr std::uint8_t kRoundingCount = 2;

// A codec and how it is applied; the same on all ranks.
struct Encoding {
  Codec codec = Codec::kNone;
  std::uint16_t block = 0;  // elements; 0: the codec has no blocks
  Rounding rounding = Rounding::kNearestEven;

  constexpr Encoding() = default;
  constexpr Encoding(Codec of)  // NOLINT(google-explicit-constructor): a codec, as it is by default
      : codec(of), block(HasBlocks(of) ? kBlockDefault : std::uint16_t{0}) {}
  constexpr Encoding(Codec of, std::uint16_t block_elements, Rounding how = Rounding::kNearestEven)
      : codec(of), block(block_elements), rounding(how) {}
  friend constexpr bool operator==(const Encoding& a, const Encoding& b) {
    return a.codec == b.codec && a.block == b.block && a.rounding == b.rounding;
  }
  friend constexpr bool operator!=(const Encoding& a, const Encoding& b) { return !(a == b); }
};

// REQUIRES: encoding.codec < kCodecCount.
constexpr const CodecInfo& InfoOf(const Encoding& encoding) { return InfoOf(encoding.codec); }

// The largest error of one encoding, as CodecInfo::error says. REQUIRES: encoding.codec < kCodecCount.
constexpr double ErrorOf(const Encoding& encoding) {
  const auto& error = InfoOf(encoding).error;
  return encoding.rounding == Rounding::kStochastic ? error.at_random_max : error.relative_max;
}

// `reason` (optional) receives a static text when the encoding is not one.
constexpr bool IsValid(const Encoding& encoding, const char** reason = nullptr) {
  const char* why = nullptr;
  if (static_cast<std::uint8_t>(encoding.codec) >= kCodecCount) {
    why = "unknown codec";
  } else if (static_cast<std::uint8_t>(encoding.rounding) >= kRoundingCount) {
    why = "unknown rounding";
  } else if (encoding.codec == Codec::kNone && encoding.rounding != Rounding::kNearestEven) {
    why = "codec none rounds nothing: leave the rounding out";
  } else if (!HasBlocks(encoding.codec)) {
    if (encoding.block != 0) why = "this codec has no blocks: leave the block size out";
  } else if (encoding.block < kBlockMin || encoding.block > kBlockMax || (encoding.block & (encoding.block - 1)) != 0) {
    why = "a block has 32, 64, 128, 256, 512 or 1024 elements";
  }
  if (reason != nullptr) *reason = why;
  return why == nullptr;
}

// REQUIRES: IsValid(encoding).
constexpr std::size_t EncodedBytes(const Encoding& encoding, DType dtype, std::size_t count) {
  const auto& layout = InfoOf(encoding.codec).layout;
  if (layout.code_bits == 0) return count * SizeOf(dtype);
  const std::size_t blocks = encoding.block == 0 ? 0 : (count + encoding.block - 1) / encoding.block;
  return blocks * layout.header_bytes + count / 8 * layout.code_bits + (count % 8 * layout.code_bits + 7) / 8;
}

constexpr const char* NameOf(DType dtype) {
  constexpr const char* kNames[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"};
  return static_cast<std::uint8_t>(dtype) < kDTypeCount ? kNames[static_cast<std::uint8_t>(dtype)] : "?";
}

constexpr const char* NameOf(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "avg", "prod", "min", "max"};
  return static_cast<std::uint8_t>(op) < kReduceOpCount ? kNames[static_cast<std::uint8_t>(op)] : "?";
}

constexpr const char* NameOf(Codec codec) {
  return static_cast<std::uint8_t>(codec) < kCodecCount ? InfoOf(codec).name : "?";
}

// Returns the name of its codec.
constexpr const char* NameOf(const Encoding& encoding) { return NameOf(encoding.codec); }

constexpr const char* NameOf(Rounding rounding) {
  constexpr const char* kNames[] = {"nearest", "stochastic"};
  return static_cast<std::uint8_t>(rounding) < kRoundingCount ? kNames[static_cast<std::uint8_t>(rounding)] : "?";
}

constexpr const char* NameOf(Algorithm algorithm) {
  constexpr const char* kNames[] = {"ring",  "two_rings",    "direct", "one_shot", "tree", "halving_doubling",
                                    "naive", "hierarchical", "rings"};
  return static_cast<std::uint8_t>(algorithm) < kAlgorithmCount ? kNames[static_cast<std::uint8_t>(algorithm)] : "?";
}

constexpr const char* NameOf(Code code) {
  constexpr const char* kNames[] = {"ok",
                                    "invalid_argument",
                                    "daemon_unreachable",
                                    "version_mismatch",
                                    "daemon_lost",
                                    "timeout",
                                    "mismatch",
                                    "peer_lost",
                                    "world_too_small",
                                    "cancelled",
                                    "evicted",
                                    "join_refused",
                                    "peer_unreachable",
                                    "resource_exhausted",
                                    "not_supported",
                                    "forked",
                                    "left",
                                    "shutting_down",
                                    "master_unreachable",
                                    "protocol",
                                    "io",
                                    "internal",
                                    "deadline",
                                    "rejoined",
                                    "buffer_modified",
                                    "interrupted",
                                    "device_failed"};
  return static_cast<std::uint32_t>(code) < kCodeCount ? kNames[static_cast<std::uint32_t>(code)] : "?";
}

// Returns whether the collective can be computed with it. The halves of an all-reduce go around the ring, or to all at
// once; those from and to one rank along trees, too; where each pair has elements of its own, there is one way.
constexpr bool HasAlgorithm(OpKind kind, Algorithm algorithm) {
  if (kind == OpKind::kAllReduce || IsEmpty(kind) || algorithm == Algorithm::kDirect) return true;
  if (kind == OpKind::kGather || kind == OpKind::kScatter || kind == OpKind::kAllToAll || kind == OpKind::kAllToAllV ||
      IsMessage(kind))
    return false;
  if (algorithm == Algorithm::kRing) return true;
  return HasRoot(kind) && (algorithm == Algorithm::kTree || algorithm == Algorithm::kNaive);
}
// Returns the algorithms that compute the collective, for error texts.
constexpr const char* AlgorithmsOf(OpKind kind) {
  if (HasAlgorithm(kind, Algorithm::kOneShot)) return "all algorithms";
  if (HasAlgorithm(kind, Algorithm::kTree)) return "the algorithms ring, direct, tree and naive";
  return HasAlgorithm(kind, Algorithm::kRing) ? "the algorithms ring and direct" : "the algorithm direct";
}

// Why a send or recv with a codec is refused.
inline constexpr const char* kMessagesHaveNoCodec = "send and recv have no codec: the receiver gets what was sent";

// Returns whether a collective of this combination exists. `reason` (optional) receives a static text when it does not.
constexpr bool IsSupported(DType dtype, ReduceOp op, const Encoding& encoding, const char** reason = nullptr) {
  const char* why = nullptr;
  if (static_cast<std::uint8_t>(dtype) >= kDTypeCount)
    why = "unknown dtype";
  else if (static_cast<std::uint8_t>(op) >= kReduceOpCount)
    why = "unknown reduction";
  else if (IsValid(encoding, &why) && op == ReduceOp::kAvg && IsInteger(dtype))
    why = "avg of integers is not defined; use sum and divide";
  else if (why == nullptr && (InfoOf(encoding.codec).dtypes & BitOf(dtype)) == 0)
    why = InfoOf(encoding.codec).refusal;
  if (reason != nullptr) *reason = why;
  return why == nullptr;
}

// How many ranks' inputs an operation waits for: all, a number (of all where there are fewer), or a share, rounded up.
struct Quorum {
  std::uint8_t code = 0;  // 0: all; up to 64: so many; from kShare + 1 on: a share in percent

  static constexpr std::uint8_t kRanksMax = 64;
  static constexpr std::uint8_t kShare = 100;
  static constexpr std::uint8_t kOfGroup = 255;
  static constexpr Quorum All() { return {}; }
  // An option of an operation only: what the group was joined with.
  static constexpr Quorum OfGroup() { return {kOfGroup}; }
  // REQUIRES: 1 to 64; 1 to 100.
  static constexpr Quorum Ranks(std::uint32_t ranks) { return {static_cast<std::uint8_t>(ranks)}; }
  static constexpr Quorum Percent(std::uint32_t percent) { return {static_cast<std::uint8_t>(kShare + percent)}; }

  constexpr bool is_valid() const { return code <= kRanksMax || (code > kShare && code <= kShare + 100); }
  constexpr std::uint32_t Of(std::uint32_t world) const {
    if (code == 0) return world;
    const std::uint32_t wanted = code > kShare ? ((code - kShare) * world + 99U) / 100 : code;
    return wanted < world ? wanted : world;
  }
  friend constexpr bool operator==(const Quorum& a, const Quorum& b) { return a.code == b.code; }
};

inline constexpr double kWeightMin = 1e-15;
inline constexpr double kWeightMax = 1e15;
// 0 for none.
constexpr bool IsWeight(double weight) { return weight == 0 || (weight >= kWeightMin && weight <= kWeightMax); }

// Returns whether the ranks can agree on whose inputs are in, and on their weights. `reason` as above.
constexpr bool CanAgreeOnInputs(OpKind kind, ReduceOp op, const Quorum& quorum, double weight,
                                const char** reason = nullptr) {
  const char* why = nullptr;
  if (quorum.code == 0 && weight == 0) return true;
  if (kind != OpKind::kAllReduce)
    why = "quorum and weight are for all_reduce";
  else if (op != ReduceOp::kSum && op != ReduceOp::kAvg)
    why = "a quorum is for sum and avg: the others have no value for an input that is missing";
  else if (weight != 0 && op != ReduceOp::kAvg)
    why = "a weight is for avg";
  else if (!quorum.is_valid())
    why = "a quorum is 1 to 64 ranks, or 1 to 100 percent of them";
  else if (!IsWeight(weight))
    why = "a weight is between 1e-15 and 1e15; a rank without an input submits none, and the others set a quorum";
  if (reason != nullptr) *reason = why;
  return why == nullptr;
}

// What becomes of an input that an operation with a quorum went on without.
enum class Late : std::uint8_t { kDropped = 0, kNext = 1 };
inline constexpr std::uint8_t kLateCount = 2;

constexpr const char* NameOf(Late late) {
  constexpr const char* kNames[] = {"dropped", "next"};
  return static_cast<std::uint8_t>(late) < kLateCount ? kNames[static_cast<std::uint8_t>(late)] : "?";
}

// Returns whether what a result lacks of a contribution can be added to a later one: what encoding takes, or all of an
// input that comes late. `reason` as above.
constexpr bool CanFeedBack(OpKind kind, DType dtype, ReduceOp op, const Encoding& encoding, Late late = Late::kDropped,
                           const char** reason = nullptr) {
  const char* why = nullptr;
  if (kind != OpKind::kAllReduce && kind != OpKind::kReduceScatter && kind != OpKind::kReduceScatterV)
    why = "error_feedback is for all_reduce and reduce_scatter";
  else if (op != ReduceOp::kSum && op != ReduceOp::kAvg)
    why = "error_feedback is for sum and avg";
  else if (encoding.codec == Codec::kNone && late == Late::kDropped)
    why = "error_feedback needs a codec, or late inputs that are kept: else nothing is lost";
  else if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    why = "error_feedback is for f32, f16 and bf16";
  if (reason != nullptr) *reason = why;
  return why == nullptr;
}

}  // namespace ringway
