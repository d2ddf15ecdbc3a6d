// Groups whose trainers reduce memory of this host's GPU. Skipped where there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/device/loader.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Gpu, EverySizeAndCollectiveIsRight) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  ExpectDeviceMemoryIsRight(ranks);
}

TEST_F(Gpu, LossOfAPeerIsRetried) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Round round(std::vector<Session*>{ranks[0].get(), ranks[1].get()},
              {.reduction = {}, .count = 3'000'001, .memory = Memory::kDevice});
  round.Submit();
  cluster.daemon(2).Kill();
  EXPECT_EQ(round.Check().world_size, 2U);
}

// Streams wait for results without the host: the default stream here, which every later copy of CopyNow follows.
TEST_F(Gpu, StreamsWaitForResults) {
  Cluster cluster({.daemons = 1});
  const Sessions ranks = cluster.JoinWorld(1);
  ASSERT_EQ(ranks.size(), 1U);
  device::Library* const library = device::Load().library;
  std::vector<float> values(1'000'000, 3.0F);
  void* memory = nullptr;
  ASSERT_TRUE(library->Allocate(0, values.size() * sizeof(float), &memory).ok());
  ASSERT_TRUE(library->CopyNow(memory, values.data(), values.size() * sizeof(float)).ok());
  auto work = ranks[0]->AllReduceAsync(memory, memory, values.size(), DType::kF32, ReduceOp::kSum);
  ASSERT_TRUE(work.ok()) << work.error().text();
  ASSERT_TRUE(work->WaitOnStream(nullptr).ok());
  std::fill(values.begin(), values.end(), 0.0F);
  ASSERT_TRUE(library->CopyNow(values.data(), memory, values.size() * sizeof(float)).ok());
  EXPECT_EQ(values.front(), 3.0F);
  EXPECT_EQ(values.back(), 3.0F);
  EXPECT_TRUE(work->Wait().ok());
  library->Free(memory);
}

}  // namespace
}  // namespace ringway::e2e
