// Runs the C trainer of c_api_compile_test.c against the fake daemon.
#include <gtest/gtest.h>
#include <ringway/ringway.h>

#include "tests/client/fake_daemon.h"

extern "C" int RunCTrainer(const char* socket_path);

namespace ringway {
namespace {

TEST(CApiTest, TrainerInCSaysEverything) {
  testing::FakeDaemon daemon;
  EXPECT_EQ(RunCTrainer(daemon.socket_path().c_str()), 0) << "the line in c_api_compile_test.c";
  const auto submits = daemon.Look().submits;
  ASSERT_EQ(submits.size(), 4u);
  EXPECT_EQ(submits[0].algorithm, 0u) << "as the plan says";
  EXPECT_EQ(submits[2].algorithm, 1u + static_cast<std::uint32_t>(Algorithm::kHalvingDoubling));
  EXPECT_EQ(submits[2].channel, 3u);
}

TEST(CApiTest, NullHandlesAreRefused) {
  EXPECT_EQ(ringwayCommInit(nullptr, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayCommRank(nullptr, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayAllReduce(nullptr, nullptr, 0, ringwayUint8, ringwaySum, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayWorkWait(nullptr, 0, nullptr), ringwayInvalidArgument);
}

}  // namespace
}  // namespace ringway
