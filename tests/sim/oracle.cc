#include "tests/sim/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "proto/check.h"
#include "proto/collective/shape.h"

namespace ringway::sim {
namespace {

bool IsAverage(const Descriptor& d) { return Reduces(d.kind) && d.op == ReduceOp::kAvg; }

// All values are multiples of this unit. For averages it is so large that sums of several values may overflow the dtype
// or the codec.
double UnitOf(const Descriptor& d) {
  if (!IsAverage(d)) return 1;
  const int largest = std::ilogb(InfoOf(d.codec).error.magnitude_max);
  return std::ldexp(1, std::min(largest, d.dtype == DType::kF64 ? 1023 : 127) - 4);
}

double ValueOf(PeerId peer, const OpName& op, const Descriptor& d, std::uint64_t element) {
  const std::uint64_t mix =
      (peer.value * 31 + op.seq * 7 + op.channel.value * 3 + element * 13 + 1) * 0x9E3779B97F4A7C15ULL >> 40;
  // Every third peer may double a product, so that it fits into a byte in the largest worlds.
  if (d.op == ReduceOp::kProd) return peer.value % 3 == 0 && mix % 2 == 0 ? 2 : 1;
  const auto value = static_cast<double>(mix % 16);
  const bool is_unsigned =
      d.dtype == DType::kU8 || d.dtype == DType::kU16 || d.dtype == DType::kU32 || d.dtype == DType::kU64;
  return is_unsigned ? value : (value - 8) * UnitOf(d);
}

// Calls visit(T{}) with the element type of the dtype. bf16 is handled by its bits.
template <typename Visit>
auto WithType(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kU8:
      return visit(std::uint8_t{});
    case DType::kI8:
      return visit(std::int8_t{});
    case DType::kU16:
    case DType::kBF16:
      return visit(std::uint16_t{});
    case DType::kI16:
      return visit(std::int16_t{});
    case DType::kU32:
      return visit(std::uint32_t{});
    case DType::kI32:
      return visit(std::int32_t{});
    case DType::kU64:
      return visit(std::uint64_t{});
    case DType::kI64:
      return visit(std::int64_t{});
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    case DType::kF16:
      break;
  }
  RINGWAY_CHECK(false);
  return visit(double{});
}

void Store(DType dtype, double value, std::byte* to) {
  WithType(dtype, [&](auto type) {
    if (dtype == DType::kBF16) {
      type = static_cast<decltype(type)>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
    } else {
      type = static_cast<decltype(type)>(value);
    }
    std::memcpy(to, &type, sizeof(type));
  });
}

double Load(DType dtype, const std::byte* from) {
  return WithType(dtype, [&](auto type) {
    std::memcpy(&type, from, sizeof(type));
    if (dtype != DType::kBF16) return static_cast<double>(type);
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(type) << 16));
  });
}

double Combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return a + b;
}

constexpr std::size_t kWorldMax = 8;  // about what worlds grow to

// Returns the tolerance in units. Whole numbers below 256 are exact in every floating-point format, which codecs
// without blocks are; an average is rounded. Codecs with blocks, and error feedback, round at each rank, up to sums of
// `world` values.
double Tolerance(const Descriptor& d, std::size_t world) {
  const CodecInfo& codec = InfoOf(d.codec);
  // The rounding error of a value up to 8, with room for what it grows to. Error feedback may add as much again.
  const double rounding = 13 * ErrorOf(d.codec) * (CanFeedBack(d.kind, d.dtype, d.op, d.codec) ? 2 : 1);
  const bool feeds_back = CanFeedBack(d.kind, d.dtype, d.op, d.codec);
  const bool rounds = codec.layout.in_blocks || feeds_back;  // and adds what is not whole
  // One that is alone rounds nothing, but may add what was kept in a larger world.
  const std::size_t largest = world > 1 ? world : feeds_back ? kWorldMax : 0;
  if (rounds) return rounding * static_cast<double>(largest * largest);
  // What weights make of small numbers is rounded by each rank.
  if (d.weighted) return static_cast<double>(world) * (d.dtype == DType::kBF16 ? 0.1 : rounding + 1e-5);
  if (d.op == ReduceOp::kAvg) return d.dtype == DType::kBF16 ? 0.05 : rounding + 1e-5;
  return 0;
}

struct Place {
  std::span<const PeerId> contributors;
  std::uint32_t rank = 0;
  PeerId root;
  std::uint64_t absent = 0;
};

// Returns the count from one rank to another; for kinds with one list of counts `from` is 0.
std::uint64_t CountOf(const OpName& op, const Descriptor& d, std::uint32_t from, std::uint32_t to) {
  std::uint64_t mix = (op.seq * 31 + op.channel.value * 7 + d.count * 3 + from * 64 + to + 1) * 0x9E3779B97F4A7C15ULL;
  mix ^= mix >> 29;
  const bool nothing = (op.seq % 4 == 0 && from % 2 == 0) || (op.seq % 4 == 1 && to % 2 == 0) || mix % 3 == 0;
  return nothing ? 0 : (mix >> 8) % (d.count + 1);
}

// Returns where the range for `to` begins in the input; the ranges of neighbouring ranks overlap.
std::uint64_t SendBegin(const OpName& op, const Descriptor& d, std::uint32_t from, std::uint32_t to) {
  std::uint64_t before = 0;
  for (std::uint32_t other = 0; other < to; ++other) before += CountOf(op, d, from, other) / 2;
  return before;
}

// The rank that contributes an element of an output of all ranks' parts, and where in that part it is.
struct Contribution {
  std::uint32_t from = 0;
  std::uint64_t element = 0;
};
Contribution ContributionAt(const OpName& op, const Descriptor& d, std::uint32_t rank, std::uint64_t element) {
  std::uint32_t from = 0;
  const auto count = [&] {
    return d.kind == OpKind::kAllToAllV ? CountOf(op, d, from, rank) : CountOf(op, d, 0, from);
  };
  for (; element >= count(); ++from) element -= count();
  return {from, element};
}

// Returns the expected value of an element of the rank's output.
double Expected(const OpName& op, const Descriptor& d, const Place& at, std::uint64_t element) {
  const std::span<const PeerId> contributors = at.contributors;
  switch (d.kind) {
    case OpKind::kAllGather:
    case OpKind::kGather:
      return ValueOf(contributors[element / d.count], op, d, element % d.count);
    case OpKind::kBroadcast:
      return ValueOf(at.root, op, d, element);
    case OpKind::kScatter:
      return ValueOf(at.root, op, d, at.rank * d.count + element);
    case OpKind::kAllToAllV:
    case OpKind::kAllGatherV: {
      const Contribution own = ContributionAt(op, d, at.rank, element);
      const std::uint64_t begin = d.kind == OpKind::kAllToAllV ? SendBegin(op, d, own.from, at.rank) : 0;
      return ValueOf(contributors[own.from], op, d, begin + own.element);
    }
    case OpKind::kAllToAll:
      return ValueOf(contributors[element / d.count], op, d, at.rank * d.count + element % d.count);
    default:
      break;
  }
  double total = 0;
  for (std::size_t place = 0; place < contributors.size(); ++place) {
    if ((at.absent >> place & 1) == 0) total += d.weighted ? WeightOf(contributors[place], op) : 1;
  }
  std::optional<double> expected;
  for (std::size_t place = 0; place < contributors.size(); ++place) {
    if ((at.absent >> place & 1) != 0) continue;
    const double share = IsAverage(d) ? (d.weighted ? WeightOf(contributors[place], op) : 1) / total : 1;
    const double value = ValueOf(contributors[place], op, d, element) * share;
    expected = expected ? Combine(d.op, *expected, value) : value;
  }
  return expected.value_or(0);
}

}  // namespace

double WeightOf(PeerId peer, const OpName& op) { return 1 + static_cast<double>((peer.value + op.seq) % 3) / 2; }

// Operations that share a residual have one codec and unit, so that what it adds is within the codec's error.
std::uint64_t FeedbackOf(const Descriptor& descriptor, std::span<const Descriptor> open) {
  if (!CanFeedBack(descriptor.kind, descriptor.dtype, descriptor.op, descriptor.codec)) return 0;
  const auto name_of = [](const Descriptor& d) {
    return 1 + (d.count * 2 + (IsAverage(d) ? 1 : 0)) * 256 + static_cast<std::uint8_t>(d.codec.codec);
  };
  const auto has_its_name = [&](const Descriptor& other) { return name_of(other) == name_of(descriptor); };
  return std::any_of(open.begin(), open.end(), has_its_name) ? 0 : name_of(descriptor);
}

bool DescriptorIsSimulated(const Descriptor& d) { return d.dtype != DType::kF16 && (!IsEmpty(d.kind) || d.count == 0); }

collective::Layout LayoutOf(const OpName& op, const Descriptor& d, std::uint32_t world_size, std::uint32_t rank) {
  collective::Layout layout{.self = Rank(rank), .counts = {}, .sends = {}};
  for (std::uint32_t other = 0; other < world_size; ++other) {
    const bool pairs = d.kind == OpKind::kAllToAllV;
    layout.counts.push_back(pairs ? CountOf(op, d, other, rank) : CountOf(op, d, 0, other));
    if (pairs) layout.sends.push_back({SendBegin(op, d, rank, other), CountOf(op, d, rank, other)});
  }
  return layout;
}

Descriptor WithCounts(Descriptor descriptor, const collective::Layout& layout) {
  descriptor.count = layout.total();
  if (descriptor.kind != OpKind::kAllToAllV) descriptor.layout = collective::HashOf(layout);
  return descriptor;
}

Part ResultAt(const OpName& op, const Descriptor& d, std::uint32_t world_size, std::uint32_t rank, bool is_root) {
  if (!HasCounts(d.kind)) return ResultOf(d.kind, d.count, world_size, rank, is_root);
  const collective::Layout layout = LayoutOf(op, d, world_size, rank);
  return d.kind == OpKind::kReduceScatterV ? layout.PartOf(Rank(rank)) : Part{0, layout.total()};
}

std::vector<std::byte> InputOf(PeerId peer, const OpName& op, const Descriptor& d, const Laid& laid) {
  const std::size_t size = SizeOf(d.dtype);
  const std::size_t count = HasCounts(d.kind)
                                ? collective::ShapeOf(d, LayoutOf(op, d, laid.world_size, laid.rank)).input.count
                                : SizesOf(d.kind, d.count, laid.world_size, laid.root == peer).input;
  std::vector<std::byte> input(count * size);
  for (std::uint64_t i = 0; i < count; ++i) Store(d.dtype, ValueOf(peer, op, d, i), input.data() + i * size);
  return input;
}

std::string WhyWrong(std::span<const std::byte> result, const OpName& op, const Descriptor& d,
                     std::span<const PeerId> contributors, PeerId self, PeerId root, std::uint64_t absent) {
  const std::size_t size = SizeOf(d.dtype);
  const auto world = static_cast<std::uint32_t>(contributors.size());
  const auto rank = std::find(contributors.begin(), contributors.end(), self) - contributors.begin();
  if (rank >= static_cast<std::ptrdiff_t>(world)) return "it is no contributor";
  const Place at{contributors, static_cast<std::uint32_t>(rank), root, absent};
  const Part range = ResultAt(op, d, world, at.rank, root == self);
  if (result.size() != range.count * size) return "a result of another size";
  const double tolerance = Tolerance(d, world) * UnitOf(d);
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const double expected = Expected(op, d, at, range.begin + i);
    const double got = Load(d.dtype, result.data() + i * size);
    if (std::abs(got - expected) <= tolerance) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got) + " and not " + std::to_string(expected);
  }
  return "";
}

}  // namespace ringway::sim
