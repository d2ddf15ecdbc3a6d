#include "daemon/local/submit_check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "proto/collective/shape.h"

namespace ringway::local {
namespace {

SubmitVerdict ProtocolError(const std::string& what) {
  return {.verdict = Verdict::kLie, .status = Status(Code::kProtocol, what)};
}

Encoding EncodingIn(const abi::Submit& submit) {
  return EncodingOf(
      {static_cast<std::uint8_t>(submit.codec), submit.block_power, static_cast<std::uint8_t>(submit.rounding)});
}

bool EnumsInRange(const abi::Submit& submit) {
  return static_cast<std::uint8_t>(submit.kind) < kOpKindCount &&
         static_cast<std::uint8_t>(submit.dtype) < kDTypeCount &&
         static_cast<std::uint8_t>(submit.op) < kReduceOpCount && IsValid(EncodingIn(submit));
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
  const std::size_t element_bytes = SizeOf(submit.dtype);
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
  if (counts.empty() || counts.size() != submit.world_size || submit.rank >= counts.size()) return std::nullopt;
  collective::Layout layout{.self = Rank(submit.rank), .counts = {}, .sends = {}};
  const bool sends = submit.kind == OpKind::kAllToAllV;
  std::uint64_t total = 0;
  for (const abi::RankCounts& rank : counts) {
    if (rank.count > count_max - total) return std::nullopt;
    total += rank.count;
    if (rank.send_count > count_max || rank.send_begin > count_max - rank.send_count) return std::nullopt;
    if (!sends && (rank.send_begin != 0 || rank.send_count != 0)) return std::nullopt;
    layout.counts.push_back(rank.count);
    if (sends) layout.sends.push_back({rank.send_begin, rank.send_count});
  }
  if (sends && layout.sends[submit.rank].count != layout.counts[submit.rank]) return std::nullopt;
  const collective::Shape shape = collective::ShapeOf({.kind = submit.kind}, layout);
  const bool fits = submit.count == total && submit.input_count == shape.input.count && submit.result_count == total;
  return fits ? std::optional(std::move(layout)) : std::nullopt;
}

// Whether root, world size and counts are what the kind asks for. REQUIRES: the count overflows in no world.
bool SizesFit(const abi::Submit& submit, bool is_root) {
  if ((HasRoot(submit.kind) || IsMessage(submit.kind)) != (submit.root != 0) ||
      IsForOneWorld(submit.kind) != (submit.world_size != 0))
    return false;
  if (IsForOneWorld(submit.kind) != (submit.members != 0) || submit.world_size > abi::kWorldSizeMax) return false;
  if (HasCounts(submit.kind)) return true;  // LayoutIn has them
  const Sizes sizes = SizesOf(submit.kind, submit.count, std::max(1U, submit.world_size), is_root);
  const bool grows = submit.kind == OpKind::kAllGather || (submit.kind == OpKind::kGather && is_root);
  return submit.input_count == sizes.input &&
         (grows ? submit.result_count >= sizes.output : submit.result_count == sizes.output);
}

}  // namespace

SubmitVerdict CheckSubmit(const abi::Submit& submit, std::span<const abi::RankCounts> counts, PeerId self,
                          const RegionBytes& region_bytes) {
  if (submit.slot >= abi::kSlotCount) return ProtocolError("a slot number is out of range");
  if (submit.channel >= abi::kChannelCountMax) return ProtocolError("a channel number is out of range");
  if (!EnumsInRange(submit)) return ProtocolError("a kind, dtype, op or codec is out of range");
  if (submit.algorithm > kAlgorithmCount) return ProtocolError("an algorithm is out of range");
  if (submit.staged > 1) return ProtocolError("'staged' is neither 0 nor 1");
  if (!HasCounts(submit.kind) && (!counts.empty() || submit.rank != 0))
    return ProtocolError("an operation without counts by rank has some");
  if (submit.priority > abi::kPriorityMax) return ProtocolError("a priority is out of range");
  if (!IsMessage(submit.kind) && submit.tag != 0) return ProtocolError("an operation without a tag has one");
  if (IsMessage(submit.kind) && (submit.feedback != 0 || submit.op != ReduceOp::kSum || PeerId(submit.root) == self))
    return ProtocolError("a message is for its own sender, or to be reduced");
  if (IsEmpty(submit.kind)) {
    if (submit.count != 0 || submit.input_count != 0 || submit.result_count != 0 || submit.staged != 0)
      return ProtocolError("an operation without elements has some");
    if (submit.root != 0 || submit.world_size != 0 || submit.members != 0 || submit.feedback != 0)
      return ProtocolError("an operation without elements has a root, a layout or a residual");
    return {.descriptor = {.kind = submit.kind}};
  }
  SubmitVerdict verdict;
  verdict.descriptor.kind = submit.kind;
  verdict.descriptor.dtype = submit.dtype;
  verdict.descriptor.op = submit.op;
  verdict.descriptor.codec = EncodingIn(submit);
  verdict.descriptor.count = submit.count;
  if (submit.algorithm > 0) verdict.algorithm = static_cast<Algorithm>(submit.algorithm - 1);
  const std::size_t element_bytes = SizeOf(submit.dtype);
  const std::uint64_t count_max = std::numeric_limits<std::uint64_t>::max() / element_bytes;
  if (submit.count > count_max / abi::kWorldSizeMax || submit.result_count > count_max)
    return ProtocolError("a count overflows");
  if (!SizesFit(submit, PeerId(submit.root) == self))
    return ProtocolError("root, world size and counts do not fit the collective");
  if (HasCounts(submit.kind)) {
    auto layout = LayoutIn(submit, counts, count_max / abi::kWorldSizeMax);
    if (!layout) return ProtocolError("counts by rank do not fit the collective");
    if (submit.kind != OpKind::kAllToAllV) verdict.descriptor.layout = collective::HashOf(*layout);
    verdict.layout = std::make_shared<const collective::Layout>(std::move(*layout));
  }
  verdict.input_bytes = submit.input_count * element_bytes;
  verdict.result_bytes = submit.result_count * element_bytes;
  if (const std::string fault = RangesFault(submit, verdict, region_bytes); !fault.empty()) return ProtocolError(fault);
  const char* reason = nullptr;
  if (IsMessage(submit.kind) && verdict.descriptor.codec != Codec::kNone) {
    verdict.verdict = Verdict::kRefuse;
    verdict.status = Status(Code::kNotSupported, kMessagesHaveNoCodec);
  } else if (verdict.algorithm && !HasAlgorithm(submit.kind, *verdict.algorithm)) {
    verdict.verdict = Verdict::kRefuse;
    verdict.status =
        Status(Code::kNotSupported, std::string(NameOf(submit.kind)) + " has " + AlgorithmsOf(submit.kind));
  } else if (!IsSupported(submit.dtype, submit.op, verdict.descriptor.codec, &reason) ||
             (submit.feedback != 0 && !CanFeedBack(submit.kind, submit.op, verdict.descriptor.codec, &reason))) {
    verdict.verdict = Verdict::kRefuse;
    verdict.status = Status(Code::kNotSupported, reason);
  }
  return verdict;
}

}  // namespace ringway::local
