#include "daemon/staging/held_streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace ringway::staging {
namespace {

const int kStreams[3] = {};

TEST(HeldStreamsTest, SoManyOfADeviceMayWaitAndEachOftenAtATime) {
  HeldStreams streams(2);
  EXPECT_TRUE(streams.Enter(0, &kStreams[0]));
  EXPECT_TRUE(streams.Enter(0, &kStreams[1]));
  EXPECT_FALSE(streams.Enter(0, &kStreams[2]));
  EXPECT_TRUE(streams.Enter(0, &kStreams[1])) << "waits already";
  EXPECT_TRUE(streams.Enter(1, &kStreams[2])) << "another device";
  streams.Leave(0, &kStreams[1]);
  EXPECT_FALSE(streams.Enter(0, &kStreams[2])) << "waits once more";
  streams.Leave(0, &kStreams[1]);
  EXPECT_TRUE(streams.Enter(0, &kStreams[2]));
}

TEST(HeldStreamsTest, OneStreamWaitsForSoMuchAtOnce) {
  HeldStreams streams(1);
  for (std::size_t i = 0; i < HeldStreams::kMostOfAStream; ++i) EXPECT_TRUE(streams.Enter(0, &kStreams[0])) << i;
  EXPECT_FALSE(streams.Enter(0, &kStreams[0]));
  streams.Leave(0, &kStreams[0]);
  EXPECT_TRUE(streams.Enter(0, &kStreams[0]));
}

TEST(HeldStreamsTest, NoneMayWaitWhereOneWouldKeepAllKernels) { EXPECT_FALSE(HeldStreams(0).Enter(0, &kStreams[0])); }

TEST(HeldStreamsTest, UnpinningComesAfterAllThatWaitAndBeforeAllThatWould) {
  HeldStreams streams(2);
  ASSERT_TRUE(streams.Enter(0, &kStreams[0]));
  ASSERT_TRUE(streams.Enter(1, nullptr));
  streams.BeginUnpinning();
  std::atomic<bool> none_waits = false;
  auto unpinner = std::async(std::launch::async, [&] {
    streams.AwaitNone();
    none_waits = true;
  });
  EXPECT_FALSE(streams.Enter(0, &kStreams[0]));
  streams.Leave(0, &kStreams[0]);
  EXPECT_FALSE(none_waits);
  streams.Leave(1, nullptr);
  unpinner.get();
  EXPECT_FALSE(streams.Enter(0, &kStreams[0])) << "it is being unpinned";
  streams.EndUnpinning();
  EXPECT_TRUE(streams.Enter(0, &kStreams[0]));
}

}  // namespace
}  // namespace ringway::staging
