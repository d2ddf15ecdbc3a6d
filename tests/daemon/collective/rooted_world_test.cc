// Collectives from and to one rank, and from each to each: all executors of worlds up to 64, every root, awkward
// counts, any order of arrival.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/daemon/collective/world.h"

namespace ringway::collective {
namespace {

using Values = std::vector<std::int32_t>;

constexpr std::uint64_t kRootedSegment = 4096;

std::vector<std::byte> BytesOf(const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Values Input(std::uint32_t rank, std::uint64_t count) {
  Values values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(100'000 * (rank + 1) + i);
  return values;
}

Values PartAt(const Values& values, std::uint64_t begin, std::uint64_t count) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(begin);
  return {at, at + static_cast<std::ptrdiff_t>(count)};
}

// Returns the rank's result by its definition.
Values Expected(const Descriptor& d, std::uint32_t world, std::uint32_t rank) {
  const bool is_root = rank == d.root;
  Values out;
  switch (d.kind) {
    case OpKind::kBroadcast:
      return Input(d.root, d.count);
    case OpKind::kReduce:
      if (!is_root) return {};
      out.resize(d.count);
      for (std::uint32_t from = 0; from < world; ++from) {
        const Values in = Input(from, d.count);
        std::transform(in.begin(), in.end(), out.begin(), out.begin(), std::plus<>());
      }
      return out;
    case OpKind::kGather:
      for (std::uint32_t from = 0; is_root && from < world; ++from) {
        const Values in = Input(from, d.count);
        out.insert(out.end(), in.begin(), in.end());
      }
      return out;
    case OpKind::kScatter:
      return PartAt(Input(d.root, world * d.count), rank * d.count, d.count);
    default:
      for (std::uint32_t from = 0; from < world; ++from) {
        const Values part = PartAt(Input(from, world * d.count), rank * d.count, d.count);
        out.insert(out.end(), part.begin(), part.end());
      }
      return out;
  }
}

void Check(const Descriptor& d, std::uint32_t world_size, bool staged) {
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    inputs.push_back(BytesOf(Input(rank, SizesOf(d.kind, d.count, world_size, IsRoot(d, Rank(rank))).input)));
  World world(d, inputs, kRootedSegment, staged);
  for (std::uint32_t rank = 0; staged && rank < world_size; ++rank) {
    world.Stage(rank, inputs[rank].size() / 2);
    world.Stage(rank, inputs[rank].size());
  }
  world.Run(world_size * 1000 + d.count);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::string where = ToString(d) + " in " + std::to_string(world_size) + " at " + std::to_string(rank);
    ASSERT_TRUE(world.executor(rank).complete()) << where;
    const std::vector<std::byte> expected = BytesOf(Expected(d, world_size, rank));
    ASSERT_LE(expected.size(), world.output(rank).size()) << where;
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), world.output(rank).begin())) << where;
    ASSERT_EQ(world.input(rank), inputs[rank]) << where;
  }
}

class RootedWorld : public testing::TestWithParam<OpKind> {};

INSTANTIATE_TEST_SUITE_P(Collectives, RootedWorld,
                         testing::Values(OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather, OpKind::kScatter,
                                         OpKind::kAllToAll),
                         [](const auto& param_info) { return NameOf(param_info.param); });

TEST_P(RootedWorld, IsRightFromEveryRootByEveryAlgorithm) {
  for (std::uint32_t world = 1; world <= 64; world += world < 9 ? 1 : 11) {
    for (std::uint8_t number = 0; number < kAlgorithmCount; ++number) {
      const auto algorithm = static_cast<Algorithm>(number);
      if (!HasAlgorithm(GetParam(), algorithm)) continue;
      for (std::uint32_t root = 0; root < (HasRoot(GetParam()) ? world : 1); root += world < 9 ? 1 : 13) {
        for (const std::uint64_t count : {0, 1, 257, 3001}) {
          const Descriptor descriptor{.kind = GetParam(),
                                      .dtype = DType::kI32,
                                      .schedule = algorithm,
                                      .count = world > 9 && count == 3001 ? 300 : count,
                                      .root = static_cast<std::uint8_t>(root)};
          Check(descriptor, world, count == 257);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringway::collective
