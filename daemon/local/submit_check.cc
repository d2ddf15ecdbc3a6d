#include "daemon/local/submit_check.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "proto/collective/shape.h"

namespace ringway::local {
namespace {

SubmitVerdict ProtocolError(const std::string& what) {
  return {.verdict = Verdict::kProtocolError, .status = Status(Code::kProtocol, what)};
}

bool EnumsInRange(const abi::OpSpec& spec) {
  return static_cast<std::uint8_t>(spec.kind) < kOpKindCount && static_cast<std::uint8_t>(spec.dtype) < kDTypeCount &&
         static_cast<std::uint8_t>(spec.op) < kReduceOpCount && IsValid(EncodingOf(spec.codec)) &&
         static_cast<std::uint8_t>(spec.late) < kLateCount;
}

// Returns what no correct client asks for; empty: nothing. REQUIRES: the enums are in range.
std::string SpecFault(const abi::OpSpec& spec, PeerId self) {
  if (spec.channel >= abi::kChannelCountMax) return "a channel number is out of range";
  if (std::any_of(std::begin(spec.reserved), std::end(spec.reserved), [](std::uint8_t byte) { return byte != 0; }))
    return "reserved bytes are not zero";
  if (spec.algorithm > kAlgorithmCount) return "an algorithm is out of range";
  if (!HasCounts(spec.kind) && spec.rank != 0) return "an operation without counts by rank has some";
  if (!Quorum{spec.quorum}.is_valid() || !IsWeight(spec.weight)) return "a quorum or a weight is out of range";
  if (spec.quorum == 0 && spec.grace_ms != 0) return "an operation without a quorum has a grace";
  if (abi::KeepsLate(spec) && (spec.quorum == 0 || spec.feedback == 0))
    return "a late input is kept without a quorum, or without a name";
  const bool is_without = spec.kind == OpKind::kAllReduce && spec.root != 0;  // the inputs of some ranks
  const bool has_neutral = spec.op == ReduceOp::kSum || spec.op == ReduceOp::kAvg;
  if (is_without && (!has_neutral || spec.quorum != 0 || spec.weight != 0))
    return "a product or an extreme, or an operation with a quorum or weights, is without some inputs";
  if (spec.priority > abi::kPriorityMax) return "a priority is out of range";
  if (!IsMessage(spec.kind) && spec.tag != 0) return "an operation without a tag has one";
  if (IsMessage(spec.kind) && (spec.feedback != 0 || spec.op != ReduceOp::kSum || PeerId(spec.root) == self))
    return "a message is for its own sender, or to be reduced";
  const bool has_layout = spec.root != 0 || spec.world_size != 0 || spec.members != 0 || spec.feedback != 0 ||
                          spec.quorum != 0 || spec.weight != 0;
  if (IsEmpty(spec.kind) && has_layout) return "an operation without elements has a root, a layout or a residual";
  return "";
}

// Returns why a valid operation is impossible; empty: it is not.
std::string WhyUnsupported(const abi::OpSpec& spec) {
  const Encoding codec = EncodingOf(spec.codec);
  const auto algorithm = abi::AlgorithmOf(spec);
  if (IsMessage(spec.kind) && codec != Codec::kNone) return kMessagesHaveNoCodec;
  if (algorithm && !HasAlgorithm(spec.kind, *algorithm))
    return std::string(NameOf(spec.kind)) + " has " + AlgorithmsOf(spec.kind);
  const char* reason = nullptr;
  if (!IsSupported(spec.dtype, spec.op, codec, &reason)) return reason;
  if (!CanAgreeOnInputs(spec.kind, spec.op, Quorum{spec.quorum}, spec.weight, &reason)) return reason;
  if (spec.feedback != 0 && !CanFeedBack(spec.kind, spec.dtype, spec.op, codec, spec.late, &reason)) return reason;
  return "";
}

// Returns why [offset, offset + bytes) is not inside a region and aligned; empty if it is.
std::string RangeFault(std::optional<std::uint64_t> region_bytes, std::uint64_t offset, std::uint64_t bytes,
                       std::size_t alignment) {
  if (bytes == 0) return {};
  if (!region_bytes.has_value()) return "region is not registered";
  if (offset > *region_bytes || bytes > *region_bytes - offset) return "range reaches beyond its region";
  if (offset % alignment != 0) return "offset is not aligned to the element size";
  return {};
}

bool Overlap(std::uint64_t input, std::uint64_t input_bytes, std::uint64_t result, std::uint64_t result_bytes) {
  if (input_bytes == 0 || result_bytes == 0) return false;
  return input < result ? result - input < input_bytes : input - result < result_bytes;
}

// Empty: none.
std::string RangesFault(const abi::Submit& submit, const SubmitVerdict& verdict, const RegionBytes& region_bytes) {
  const std::size_t element_bytes = SizeOf(submit.spec.dtype);
  const std::string input_fault =
      RangeFault(region_bytes(submit.input_region), submit.input_offset_bytes, verdict.input_bytes, element_bytes);
  if (!input_fault.empty()) return "the input's " + input_fault;
  const std::string result_fault =
      RangeFault(region_bytes(submit.result_region), submit.result_offset_bytes, verdict.result_bytes, element_bytes);
  if (!result_fault.empty()) return "the result's " + result_fault;
  const bool overlap =
      submit.input_region == submit.result_region &&
      Overlap(submit.input_offset_bytes, verdict.input_bytes, submit.result_offset_bytes, verdict.result_bytes);
  return overlap ? "input and result overlap" : "";
}

// Nothing: they are no layout, or their sums are not what the packet says.
std::optional<collective::Layout> LayoutIn(const abi::Submit& submit, std::span<const abi::RankCounts> counts,
                                           std::uint64_t count_max) {
  const abi::OpSpec& spec = submit.spec;
  if (counts.empty() || counts.size() != spec.world_size || spec.rank >= counts.size()) return std::nullopt;
  collective::Layout layout{.self = Rank(spec.rank), .counts = {}, .sends = {}};
  const bool sends = spec.kind == OpKind::kAllToAllV;
  std::uint64_t total = 0;
  for (const abi::RankCounts& rank : counts) {
    if (rank.count > count_max - total) return std::nullopt;
    total += rank.count;
    if (rank.send_count > count_max || rank.send_begin > count_max - rank.send_count) return std::nullopt;
    if (!sends && (rank.send_begin != 0 || rank.send_count != 0)) return std::nullopt;
    layout.counts.push_back(rank.count);
    if (sends) layout.sends.push_back({rank.send_begin, rank.send_count});
  }
  if (sends && layout.sends[spec.rank].count != layout.counts[spec.rank]) return std::nullopt;
  const collective::Shape shape = collective::ShapeOf({.kind = spec.kind}, layout);
  const bool fits = spec.count == total && submit.input_count == shape.input.count && submit.result_count == total;
  return fits ? std::optional(std::move(layout)) : std::nullopt;
}

// Returns whether root, world size and counts are what the kind asks for. REQUIRES: the count overflows in no world.
bool SizesFit(const abi::Submit& submit, bool is_root) {
  const abi::OpSpec& spec = submit.spec;
  const bool names_a_peer = HasRoot(spec.kind) || IsMessage(spec.kind);
  if (spec.kind != OpKind::kAllReduce && names_a_peer != (spec.root != 0)) return false;
  if (IsForOneWorld(spec.kind) != (spec.world_size != 0)) return false;
  if (IsForOneWorld(spec.kind) != (spec.members != 0) || spec.world_size > abi::kWorldSizeMax) return false;
  if (HasCounts(spec.kind)) return true;  // LayoutIn has them
  const Sizes sizes = SizesOf(spec.kind, spec.count, std::max(1U, spec.world_size), is_root);
  const bool grows = spec.kind == OpKind::kAllGather || (spec.kind == OpKind::kGather && is_root);
  return submit.input_count == sizes.input &&
         (grows ? submit.result_count >= sizes.output : submit.result_count == sizes.output);
}

}  // namespace

SubmitVerdict CheckSubmit(const abi::Submit& submit, std::span<const abi::RankCounts> counts, PeerId self,
                          const RegionBytes& region_bytes) {
  const abi::OpSpec& spec = submit.spec;
  if (submit.slot >= abi::kSlotCount) return ProtocolError("a slot number is out of range");
  if (submit.staged > 1) return ProtocolError("'staged' is neither 0 nor 1");
  if (!EnumsInRange(spec)) return ProtocolError("a kind, dtype, op, codec or 'late' is out of range");
  if (const std::string fault = SpecFault(spec, self); !fault.empty()) return ProtocolError(fault);
  if (!HasCounts(spec.kind) && !counts.empty()) return ProtocolError("an operation without counts by rank has some");
  SubmitVerdict verdict;
  if (IsEmpty(spec.kind)) {
    if (spec.count != 0 || submit.input_count != 0 || submit.result_count != 0 || submit.staged != 0)
      return ProtocolError("an operation without elements has some");
    verdict.spec.kind = verdict.descriptor.kind = spec.kind;
    verdict.spec.channel = spec.channel;
    verdict.spec.priority = spec.priority;
    return verdict;
  }
  verdict.spec = spec;
  verdict.descriptor.kind = spec.kind;
  verdict.descriptor.dtype = spec.dtype;
  verdict.descriptor.op = spec.op;
  verdict.descriptor.codec = EncodingOf(spec.codec);
  verdict.descriptor.count = spec.count;
  verdict.descriptor.quorum = spec.quorum;
  verdict.descriptor.weighted = spec.weight != 0;
  if (spec.kind == OpKind::kAllReduce) verdict.descriptor.layout = spec.root;
  const std::size_t element_bytes = SizeOf(spec.dtype);
  const std::uint64_t count_max = std::numeric_limits<std::uint64_t>::max() / element_bytes;
  if (spec.count > count_max / abi::kWorldSizeMax || submit.result_count > count_max)
    return ProtocolError("a count overflows");
  if (!SizesFit(submit, PeerId(spec.root) == self))
    return ProtocolError("root, world size and counts do not fit the collective");
  if (HasCounts(spec.kind)) {
    auto layout = LayoutIn(submit, counts, count_max / abi::kWorldSizeMax);
    if (!layout) return ProtocolError("counts by rank do not fit the collective");
    if (spec.kind != OpKind::kAllToAllV) verdict.descriptor.layout = collective::HashOf(*layout);
    verdict.layout = std::make_shared<const collective::Layout>(std::move(*layout));
  }
  verdict.input_bytes = submit.input_count * element_bytes;
  verdict.result_bytes = submit.result_count * element_bytes;
  if (const std::string fault = RangesFault(submit, verdict, region_bytes); !fault.empty()) return ProtocolError(fault);
  if (const std::string why = WhyUnsupported(spec); !why.empty()) {
    verdict.verdict = Verdict::kRefuse;
    verdict.status = Status(Code::kNotSupported, why);
  }
  return verdict;
}

}  // namespace ringway::local
