#include "daemon/collective/grid.h"

#include <gtest/gtest.h>

namespace ringway::collective {
namespace {

TEST(Grid, ChunksAndSegmentsTileTheBufferOnGridBoundaries) {
  for (const std::uint64_t count : {0ull, 1ull, 255ull, 256ull, 257ull, 1000ull, 65536ull, 1000003ull}) {
    for (const std::uint32_t chunks : {1u, 2u, 3u, 7u, 64u}) {
      const Grid grid(count, chunks, 4, 256 * 1024);
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
  const Grid grid(count, 3, 1, 256 * 1024);
  const Range last = grid.Segment(2, grid.Segments(2) - 1);
  EXPECT_EQ(last.begin + last.count, count);
}

TEST(Grid, SmallChunksAreCutSoThatStepsOverlap) {
  const Grid grid(1 << 20, 4, 4, 256 * 1024);  // 1 MiB a chunk
  EXPECT_EQ(grid.Segments(0), 4u);
  const Grid tiny(1024, 4, 4, 256 * 1024);
  EXPECT_EQ(tiny.Segments(0), 1u);
}

}  // namespace
}  // namespace ringway::collective
