#include "tests/chaos/program.h"

#include <random>

namespace ringway::chaos {
namespace {

// Small ones go out eagerly, middle ones in a segment or a few, large ones in many.
std::size_t SomeCount(std::mt19937_64& dice) {
  switch (dice() % 6) {
    case 0:
    case 1:
      return dice() % 1'000;
    case 2:
    case 3:
    case 4:
      return dice() % 40'000;
    default:
      return dice() % (kCountMax + 1);
  }
}

bench::Reduction SomeReduction(std::mt19937_64& dice) {
  for (;;) {
    bench::Reduction one{.dtype = static_cast<DType>(dice() % kDTypeCount),
                         .op = static_cast<ReduceOp>(dice() % kReduceOpCount),
                         .codec = dice() % 2 == 0 ? Codec::kNone : kCodecs[dice() % kCodecCount].codec};
    if (one.codec.block > 0) one.codec.block = static_cast<std::uint16_t>(kBlockMin << dice() % 6);
    if (dice() % 4 == 0) one.codec.rounding = Rounding::kStochastic;
    const char* ignored = nullptr;
    if (IsSupported(one.dtype, one.op, one.codec, &ignored)) return one;
  }
}

}  // namespace

std::vector<PlannedOp> OpsOf(std::uint64_t step) {
  std::mt19937_64 dice(step);
  std::vector<PlannedOp> ops(1 + dice() % 4);
  for (PlannedOp& op : ops) {
    op.reduction = SomeReduction(dice);
    op.count = SomeCount(dice);
    op.channel = static_cast<std::uint32_t>(dice() % 3);
    const Quorum half = Quorum::Percent(50);
    if (step % 3 == 0 || !CanAgreeOnInputs(OpKind::kAllReduce, op.reduction.op, half, 0)) continue;
    op.quorum = half;
    op.grace = std::chrono::milliseconds(dice() % 20);
  }
  return ops;
}

}  // namespace ringway::chaos
