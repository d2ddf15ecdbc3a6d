// Collectives with counts by rank: all executors of worlds up to 64, counts of any size, many of them 0, ranges that
// overlap, any order of arrival; each result beside one that is computed element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/daemon/collective/world.h"

namespace ringway::collective {
namespace {

using Numbers = std::vector<std::int32_t>;
using Matrix = std::vector<std::vector<std::uint64_t>>;  // [from][to]

constexpr std::uint64_t kCountedSegment = 4096;

Numbers InputOf(std::uint32_t rank, std::uint64_t count) {
  Numbers values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(1'000'000 * (rank + 1) + i);
  return values;
}

Matrix RandomMatrix(std::uint32_t world, std::uint64_t most, std::mt19937_64& random) {
  Matrix counts(world, std::vector<std::uint64_t>(world));
  for (auto& row : counts) {
    for (std::uint64_t& count : row) count = random() % 2 == 0 ? 0 : random() % (most + 1);
  }
  return counts;
}

// Ranges begin anywhere in the input.
std::vector<Layout> LayoutsOf(const Matrix& counts, std::mt19937_64& random) {
  std::vector<Layout> layouts(counts.size());
  for (std::uint32_t rank = 0; rank < counts.size(); ++rank) {
    layouts[rank].self = Rank(rank);
    for (std::uint32_t other = 0; other < counts.size(); ++other) {
      layouts[rank].counts.push_back(counts[other][rank]);
      layouts[rank].sends.push_back({random() % 50, counts[rank][other]});
    }
  }
  return layouts;
}

void CheckAllToAllV(const Matrix& counts, std::uint64_t seed, bool staged = false) {
  std::mt19937_64 random(seed);
  const std::vector<Layout> layouts = LayoutsOf(counts, random);
  const auto world_size = static_cast<std::uint32_t>(counts.size());
  std::vector<Numbers> inputs;
  std::vector<std::vector<std::byte>> bytes;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    inputs.push_back(InputOf(rank, layouts[rank].sent_upto()));
    bytes.push_back(Bytes(inputs[rank]));
  }
  const Descriptor descriptor{.kind = OpKind::kAllToAllV, .dtype = DType::kI32, .schedule = Algorithm::kDirect};
  World world(descriptor, bytes, kCountedSegment, staged, {}, nullptr, {}, layouts);
  for (std::uint32_t rank = 0; staged && rank < world_size; ++rank) {
    world.Stage(rank, bytes[rank].size() / 2);
    world.Stage(rank, bytes[rank].size());
  }
  std::uint64_t frames = 0;
  world.RunObserved(seed, [&](const World::Frame& frame) {
    ++frames;
    const auto [from, to] = std::pair(frame.from.value, frame.to.value);
    ASSERT_NE(counts[from][to], 0U) << "nothing goes from " << from << " to " << to;
    ASSERT_EQ(frame.header.descriptor, DescriptorWith(descriptor, layouts[to], frame.to, frame.from));
  });
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    ASSERT_TRUE(world.executor(rank).complete()) << "rank " << rank << " of " << world_size;
    Numbers expected;
    for (std::uint32_t from = 0; from < world_size; ++from) {
      for (std::uint64_t i = 0; i < counts[from][rank]; ++i)
        expected.push_back(inputs[from][layouts[from].sends[rank].begin + i]);
    }
    ASSERT_EQ(collective::Values<std::int32_t>(world.output(rank)), expected)
        << "rank " << rank << " of " << world_size;
    ASSERT_EQ(world.input(rank), bytes[rank]);
  }
}

TEST(CountedWorldTest, AllToAllVGivesEachRankWhatTheOthersHaveForIt) {
  std::mt19937_64 random(1);
  for (std::uint32_t world = 1; world <= 64; world += world < 9 ? 1 : 11) {
    for (const std::uint64_t most : {1, 257, 9000}) {
      if (world > 20 && most == 9000) continue;
      CheckAllToAllV(RandomMatrix(world, most, random), world * 100 + most, most == 257);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CountedWorldTest, NothingAtAllIsCompleteAtOnceWithoutAFrame) {
  for (const std::uint32_t world : {1U, 2U, 64U}) CheckAllToAllV(Matrix(world, std::vector<std::uint64_t>(world)), 5);
}

// State is shared so: some ranks hold it, and each sends a stripe of it to all that lack it.
TEST(CountedWorldTest, HoldersSendStripesToThoseWhoLackThem) {
  constexpr std::uint32_t kRanks = 9;
  Matrix counts(kRanks, std::vector<std::uint64_t>(kRanks));
  for (const std::uint32_t holder : {1U, 4U, 6U}) {
    for (const std::uint32_t lacking : {0U, 8U}) counts[holder][lacking] = 5000 + holder;
  }
  CheckAllToAllV(counts, 6);
}

std::vector<Layout> Alike(const std::vector<std::uint64_t>& counts) {
  std::vector<Layout> layouts(counts.size());
  for (std::uint32_t rank = 0; rank < counts.size(); ++rank)
    layouts[rank] = {.self = Rank(rank), .counts = counts, .sends = {}};
  return layouts;
}

void CheckParts(OpKind kind, Algorithm algorithm, const std::vector<std::uint64_t>& counts) {
  const auto world_size = static_cast<std::uint32_t>(counts.size());
  const std::vector<Layout> layouts = Alike(counts);
  const std::uint64_t total = layouts[0].total();
  const bool reduces = kind == OpKind::kReduceScatterV;
  std::vector<std::vector<std::byte>> inputs;
  Numbers all, sum(total);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const Numbers input = InputOf(rank, reduces ? total : counts[rank]);
    inputs.push_back(Bytes(input));
    if (!reduces) all.insert(all.end(), input.begin(), input.end());
    if (reduces) std::transform(input.begin(), input.end(), sum.begin(), sum.begin(), std::plus<>());
  }
  const Descriptor descriptor{
      .kind = kind, .dtype = DType::kI32, .schedule = algorithm, .count = total, .layout = HashOf(layouts[0])};
  World world(descriptor, inputs, kCountedSegment, false, {}, nullptr, {}, layouts);
  world.Run(world_size + total);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::string where =
        ToString(descriptor) + " at " + std::to_string(rank) + " of " + std::to_string(world_size);
    ASSERT_TRUE(world.executor(rank).complete()) << where;
    const Numbers output = collective::Values<std::int32_t>(world.output(rank));
    const Range part = reduces ? layouts[rank].PartOf(Rank(rank)) : Range{0, total};
    const Numbers& expected = reduces ? sum : all;
    for (std::uint64_t i = part.begin; i < part.begin + part.count; ++i) ASSERT_EQ(output[i], expected[i]) << where;
  }
}

TEST(CountedWorldTest, PartsAreAsLongAsTheCountsSayByEveryAlgorithm) {
  std::mt19937_64 random(2);
  for (std::uint32_t world = 1; world <= 64; world += world < 9 ? 1 : 18) {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::uint64_t> counts(world);
      for (std::uint64_t& count : counts) count = round == 0 || random() % 3 == 0 ? 0 : random() % (round * 900);
      for (const OpKind kind : {OpKind::kAllGatherV, OpKind::kReduceScatterV}) {
        for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
          CheckParts(kind, algorithm, counts);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CountedWorldTest, SegmentsThatGotLostAreSentAgainByARankThatReceivesNothing) {
  const Matrix counts = {{0, 20'000, 20'000}, {0, 0, 0}, {0, 0, 0}};
  std::mt19937_64 random(3);
  const std::vector<Layout> layouts = LayoutsOf(counts, random);
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < 3; ++rank) inputs.push_back(Bytes(InputOf(rank, layouts[rank].sent_upto())));
  const Descriptor descriptor{.kind = OpKind::kAllToAllV, .dtype = DType::kI32, .schedule = Algorithm::kDirect};
  World world(descriptor, inputs, kCountedSegment, false, {}, nullptr, {}, layouts);
  world.Send();
  const std::vector<World::Frame> lost = std::exchange(world.wire(), {});
  ASSERT_GT(lost.size(), 10U);
  for (const World::Frame& frame : lost)
    world.executor(0).Resend(frame.to, frame.header.step, frame.header.chunk, frame.header.segment);
  world.Run(4);
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(world.executor(rank).complete()) << rank;
}

}  // namespace
}  // namespace ringway::collective
