#include "proto/collective/grid.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::collective {
namespace {

std::vector<std::uint32_t> Equal(std::uint32_t chunks) { return std::vector<std::uint32_t>(chunks, 1); }

TEST(Grid, ChunksAndSegmentsTileTheBufferOnGridBoundaries) {
  for (const std::uint64_t count : {0ull, 1ull, 255ull, 256ull, 257ull, 1000ull, 65536ull, 1000003ull}) {
    for (const auto& weights : {Equal(1), Equal(2), Equal(3), Equal(7), Equal(64), {0, 5, 0, 0, 70'000, 1, 0}}) {
      const auto chunks = static_cast<std::uint32_t>(weights.size());
      const Grid grid(WeightedChunks(count, weights), 4, 256 * 1024);
      std::uint64_t next = 0;
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        ASSERT_EQ(grid.Chunk(chunk).begin, next);
        ASSERT_GE(grid.Segments(chunk), 1u);
        for (std::uint32_t segment = 0; segment < grid.Segments(chunk); ++segment) {
          const Range range = grid.Segment(chunk, segment);
          ASSERT_EQ(range.begin, next);
          ASSERT_TRUE(range.begin % kGridElements == 0 || range.count == 0);
          ASSERT_LE(range.count * 4, 256u * 1024);
          next += range.count;
        }
        ASSERT_EQ(next, grid.Chunk(chunk).begin + grid.Chunk(chunk).count);
      }
      ASSERT_EQ(next, count);
    }
  }
}

TEST(Grid, CountsBeyond32BitsKeepTheirOffsets) {
  const std::uint64_t count = 5'000'000'000;
  const Grid grid(WeightedChunks(count, Equal(3)), 1, 256 * 1024);
  const Range last = grid.Segment(2, grid.Segments(2) - 1);
  EXPECT_EQ(last.begin + last.count, count);
}

TEST(Grid, ChunksAreAsLongAsTheirWeightsToABlock) {
  const std::vector<std::uint32_t> weights = {3, 0, 1};
  const Grid grid(WeightedChunks(1'000'000, weights), 4, 256 * 1024);
  EXPECT_EQ(grid.Chunk(1).count, 0u);
  EXPECT_EQ(grid.Segments(1), 1u);
  EXPECT_NEAR(static_cast<double>(grid.Chunk(0).count), 750'000, kGridElements);
  EXPECT_NEAR(static_cast<double>(grid.Chunk(2).count), 250'000, kGridElements);
}

TEST(Grid, WeightsOfAnySizeDoNotOverflow) {
  const std::vector<std::uint32_t> weights(512, ~std::uint32_t{0});
  const std::uint64_t count = std::uint64_t{1} << 60;
  const Grid grid(WeightedChunks(count, weights), 1, 256 * 1024);
  for (std::uint32_t chunk = 0; chunk < 512; ++chunk) EXPECT_EQ(grid.Chunk(chunk).count, count / 512) << chunk;
}

TEST(Grid, SegmentsAreCutByTheLongestChunk) {
  const std::vector<std::uint32_t> weights = {1, 31};
  const Grid grid(WeightedChunks(1 << 20, weights), 4, 1 << 20);
  EXPECT_EQ(grid.Segments(0), 1u);
  EXPECT_EQ(grid.Segments(1), 4u);
}

TEST(Grid, SmallChunksAreCutSoThatStepsOverlap) {
  const Grid grid(WeightedChunks(1 << 20, Equal(4)), 4, 256 * 1024);  // 1 MiB a chunk
  EXPECT_EQ(grid.Segments(0), 4u);
  const Grid tiny(WeightedChunks(1024, Equal(4)), 4, 256 * 1024);
  EXPECT_EQ(tiny.Segments(0), 1u);
}

}  // namespace
}  // namespace ringway::collective
