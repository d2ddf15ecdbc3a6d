#include "proto/segment_header.h"

#include <bit>
#include <cstring>

#include "proto/encoding_code.h"
#include "proto/hash.h"

namespace ringway {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire format is the memory format of little-endian hosts");

constexpr std::uint32_t kMagic = 0x31535752;  // "RWS1"
constexpr std::size_t kHashOffset = 88;
constexpr std::uint8_t kWeighted = 1;

struct Wire {
  std::uint32_t magic;
  std::uint8_t kind, dtype, op, codec;
  std::uint64_t epoch;
  std::uint64_t seq;
  std::uint32_t channel;
  std::uint32_t payload_bytes;
  std::uint32_t segment;
  std::uint16_t step;
  std::uint16_t chunk;
  std::uint64_t count;
  std::uint64_t prepared;
  std::uint64_t acknowledged;
  std::uint64_t payload_hash;
  std::uint8_t op_kind, schedule;
  std::uint8_t block_power, rounding;
  std::uint8_t root;
  std::uint8_t quorum, flags;
  std::uint8_t reserved;
  std::uint64_t layout;
  std::uint64_t header_hash;
};
static_assert(sizeof(Wire) == kSegmentHeaderBytes && offsetof(Wire, header_hash) == kHashOffset);

std::string ToString(const Quorum& quorum) {
  if (quorum.code <= Quorum::kRanksMax) return "quorum of " + std::to_string(quorum.code);
  return "quorum of " + std::to_string(quorum.code - Quorum::kShare) + "%";
}

}  // namespace

std::string ToString(const Encoding& encoding) {
  std::string text = NameOf(encoding.codec);
  if (encoding.block != Encoding(encoding.codec).block) text += " in blocks of " + std::to_string(encoding.block);
  if (encoding.rounding != Rounding::kNearestEven) text += std::string(", ") + NameOf(encoding.rounding);
  return text;
}

std::string ToString(const Descriptor& descriptor) {
  std::string kind = NameOf(descriptor.kind);
  if (descriptor.kind == OpKind::kUpdateView) return kind;
  if (descriptor.kind == OpKind::kBarrier) return kind + ", algorithm " + NameOf(descriptor.schedule);
  if (IsMessage(descriptor.kind))
    return kind + " of " + std::to_string(descriptor.count) + " " + NameOf(descriptor.dtype);
  const std::string root = HasRoot(descriptor.kind) ? "root " + std::to_string(descriptor.root) + ", " : "";
  std::string counts = std::to_string(descriptor.count);
  if (descriptor.kind == OpKind::kAllToAllV)
    counts += " to the higher rank and " + std::to_string(descriptor.layout) + " back,";
  const std::string layout = HasCounts(descriptor.kind) && descriptor.kind != OpKind::kAllToAllV
                                 ? "counts " + std::to_string(descriptor.layout % 10'000) + ", "
                             : descriptor.without_from() != PeerId()
                                 ? "without inputs from peer " + std::to_string(descriptor.layout) + " on, "
                                 : "";
  const std::string op = Reduces(descriptor.kind) ? NameOf(descriptor.op) + std::string(", ") : "";
  const std::string quorum = descriptor.quorum == 0 ? "" : ToString(Quorum{descriptor.quorum}) + ", ";
  return kind + " of " + counts + " " + NameOf(descriptor.dtype) + ", " + root + layout + op +
         (descriptor.weighted ? "weighted, " : "") + quorum + "codec " + ToString(descriptor.codec) + ", algorithm " +
         NameOf(descriptor.schedule);
}

void EncodeSegmentHeader(const SegmentHeader& header, std::span<std::byte, kSegmentHeaderBytes> out) {
  Wire wire{};
  wire.magic = kMagic;
  wire.kind = static_cast<std::uint8_t>(header.kind);
  wire.dtype = static_cast<std::uint8_t>(header.descriptor.dtype);
  wire.op = static_cast<std::uint8_t>(header.descriptor.op);
  const EncodingCode codec = CodeOf(header.descriptor.codec);
  wire.codec = codec.codec;
  wire.block_power = codec.block_power;
  wire.rounding = codec.rounding;
  wire.epoch = header.epoch.value;
  wire.seq = header.op.seq;
  wire.channel = header.op.channel.value;
  wire.payload_bytes = header.payload_bytes;
  wire.segment = header.segment;
  wire.step = header.step;
  wire.chunk = header.chunk;
  wire.count = header.descriptor.count;
  wire.prepared = header.stamp.prepared.value;
  wire.acknowledged = header.stamp.acknowledged;
  wire.payload_hash = header.payload_hash;
  wire.op_kind = static_cast<std::uint8_t>(header.descriptor.kind);
  wire.schedule = static_cast<std::uint8_t>(header.descriptor.schedule);
  wire.root = header.descriptor.root;
  wire.layout = header.descriptor.layout;
  wire.quorum = header.descriptor.quorum;
  wire.flags = header.descriptor.weighted ? kWeighted : 0;
  wire.header_hash = Hash64(std::as_bytes(std::span(&wire, 1)).first(kHashOffset));
  std::memcpy(out.data(), &wire, sizeof wire);
}

Result<SegmentHeader> DecodeSegmentHeader(std::span<const std::byte, kSegmentHeaderBytes> in) {
  Wire wire;
  std::memcpy(&wire, in.data(), sizeof wire);
  if (wire.magic != kMagic) return Status(Code::kProtocol, "segment header has no magic: the lane is out of step");
  if (wire.header_hash != Hash64(in.first(kHashOffset))) {
    return Status(Code::kProtocol, "segment header fails its checksum: the link corrupts data");
  }
  const Encoding encoding = EncodingOf({wire.codec, wire.block_power, wire.rounding});
  if (wire.kind >= kSegmentKindCount || wire.dtype >= kDTypeCount || wire.op >= kReduceOpCount || !IsValid(encoding) ||
      wire.op_kind >= kOpKindCount || wire.schedule >= kAlgorithmCount || wire.payload_bytes > kPayloadBytesMax) {
    return Status(Code::kProtocol, "segment header holds a value outside its range");
  }
  SegmentHeader header;
  header.kind = static_cast<SegmentKind>(wire.kind);
  header.epoch = Epoch(wire.epoch);
  header.op = OpName{ChannelId(wire.channel), wire.seq};
  header.descriptor = {static_cast<OpKind>(wire.op_kind),
                       static_cast<DType>(wire.dtype),
                       static_cast<ReduceOp>(wire.op),
                       encoding,
                       static_cast<Algorithm>(wire.schedule),
                       wire.count,
                       wire.root,
                       wire.layout,
                       wire.quorum,
                       (wire.flags & kWeighted) != 0};
  header.step = wire.step;
  header.chunk = wire.chunk;
  header.segment = wire.segment;
  header.payload_bytes = wire.payload_bytes;
  header.stamp = {Epoch(wire.prepared), wire.acknowledged};
  header.payload_hash = wire.payload_hash;
  return header;
}

}  // namespace ringway
