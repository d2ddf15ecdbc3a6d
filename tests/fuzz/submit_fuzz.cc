// Any Submit packet against any regions: what is accepted lies within its regions, aligned and without overlap.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "daemon/local/packet.h"
#include "daemon/local/submit_check.h"
#include "tests/fuzz/input.h"

namespace ringway::local {
namespace {

constexpr PeerId kSelf(7);

// No sum of these can overflow where the first two conditions hold.
bool Inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t region_bytes) {
  return offset <= region_bytes && bytes <= region_bytes && offset + bytes <= region_bytes &&
         region_bytes - offset >= bytes;
}

// The sent ranges lie in the input, and there are as many parts as the packet says.
void CheckLayout(const abi::Submit& submit, const SubmitVerdict& verdict) {
  REQUIRE((verdict.layout != nullptr) == HasCounts(submit.spec.kind));
  if (verdict.layout == nullptr) return;
  const collective::Layout& layout = *verdict.layout;
  REQUIRE(layout.counts.size() == submit.spec.world_size && layout.self.value < submit.spec.world_size);
  REQUIRE(layout.total() == submit.spec.count && layout.sent_upto() <= submit.input_count);
  REQUIRE(layout.sends.size() == (submit.spec.kind == OpKind::kAllToAllV ? submit.spec.world_size : 0));
  REQUIRE(submit.result_count == submit.spec.count);
}

void CheckAccepted(const abi::Submit& submit, const SubmitVerdict& verdict, std::uint64_t input, std::uint64_t result) {
  const std::uint64_t element = SizeOf(submit.spec.dtype);
  REQUIRE(verdict.input_bytes / element == submit.input_count && verdict.input_bytes % element == 0);
  REQUIRE(verdict.result_bytes / element == submit.result_count && verdict.result_bytes % element == 0);
  CheckLayout(submit, verdict);
  const bool is_root = PeerId(submit.spec.root) == kSelf;
  const Sizes sizes = HasCounts(submit.spec.kind)
                          ? Sizes{submit.input_count, submit.spec.count}
                          : SizesOf(submit.spec.kind, submit.spec.count, std::max(1U, submit.spec.world_size), is_root);
  REQUIRE(submit.input_count == sizes.input && submit.result_count >= sizes.output);
  REQUIRE(submit.result_count == sizes.output || CountsByRank(submit.spec.kind));
  REQUIRE(verdict.input_bytes == 0 || Inside(submit.input_offset_bytes, verdict.input_bytes, input));
  REQUIRE(verdict.result_bytes == 0 || Inside(submit.result_offset_bytes, verdict.result_bytes, result));
  if (verdict.input_bytes == 0 || verdict.result_bytes == 0) return;
  REQUIRE(submit.input_offset_bytes % element == 0 && submit.result_offset_bytes % element == 0);
  const bool apart = submit.input_offset_bytes + verdict.input_bytes <= submit.result_offset_bytes ||
                     submit.result_offset_bytes + verdict.result_bytes <= submit.input_offset_bytes;
  REQUIRE(submit.input_region != submit.result_region || apart);
}

}  // namespace
}  // namespace ringway::local

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringway;
  using namespace ringway::local;
  fuzz::Input input(data, size);
  std::map<std::uint32_t, std::uint64_t> regions;
  for (std::uint32_t id = 0; id < 2; ++id) regions[id] = input.Number<std::uint64_t>();
  const auto region_bytes = [&](std::uint32_t id) -> std::optional<std::uint64_t> {
    const auto found = regions.find(id);
    if (found == regions.end()) return std::nullopt;
    return found->second;
  };
  const auto packet = PacketAs<abi::Submit>(input.Take(sizeof(abi::Submit)));
  if (!packet.ok()) return 0;
  const abi::Submit& submit = packet.value();
  std::vector<abi::RankCounts> counts;
  while (counts.size() < abi::kWorldSizeMax) {
    const auto rank = PacketAs<abi::RankCounts>(input.Take(sizeof(abi::RankCounts)));
    if (!rank.ok()) break;
    counts.push_back(rank.value());
  }
  const SubmitVerdict verdict = CheckSubmit(submit, counts, kSelf, region_bytes);
  REQUIRE((verdict.verdict == Verdict::kAccept) == verdict.status.ok());
  if (verdict.verdict != Verdict::kAccept) return 0;
  REQUIRE(submit.slot < abi::kSlotCount && submit.spec.channel < abi::kChannelCountMax);
  REQUIRE(verdict.input_bytes == 0 || regions.contains(submit.input_region));
  REQUIRE(verdict.result_bytes == 0 || regions.contains(submit.result_region));
  const bool is_without = submit.spec.root != 0 && submit.spec.kind == OpKind::kAllReduce;  // inputs
  REQUIRE((submit.spec.root != 0) == (HasRoot(submit.spec.kind) || IsMessage(submit.spec.kind) || is_without));
  REQUIRE(!is_without || ((submit.spec.op == ReduceOp::kSum || submit.spec.op == ReduceOp::kAvg) &&
                          submit.spec.quorum == 0 && submit.spec.weight == 0));
  REQUIRE((submit.spec.members != 0) == IsForOneWorld(submit.spec.kind));
  if (IsEmpty(submit.spec.kind)) return 0;
  CheckAccepted(submit, verdict, regions[submit.input_region], regions[submit.result_region]);
  return 0;
}
