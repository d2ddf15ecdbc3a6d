#include "daemon/core/mesh.h"

#include <gtest/gtest.h>

namespace ringway::core {
namespace {

constexpr PeerId kSelf(1), kOther(2);

TimePoint At(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

// A candidate that starts over is dialled anew while the first dial is still under way.
TEST(Mesh, EndOfAnOldDialDoesNotCondemnALinkThatStands) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  mesh.AllDown(kOther, At(2));
  ASSERT_EQ(mesh.TakeDials(At(100)).size(), 1U);
  EXPECT_FALSE(mesh.ControlUp(kOther, At(101)));
  EXPECT_TRUE(mesh.LaneUp(kOther, LaneId(0), 1, At(102)));
  EXPECT_FALSE(mesh.DialFailed(kOther, false, At(200)));
  EXPECT_EQ(mesh.StandingPeers(), std::vector<PeerId>{kOther});
}

TEST(Mesh, FailedDialIsRepeatedAfterAPauseThatDoubles) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, At(10)));
  EXPECT_TRUE(mesh.TakeDials(At(29)).empty());
  ASSERT_EQ(mesh.TakeDials(At(30)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, At(40)));
  EXPECT_TRUE(mesh.TakeDials(At(79)).empty());
  EXPECT_EQ(mesh.TakeDials(At(80)).size(), 1U);
}

TEST(Mesh, LaneThatFallsDuringADialIsDialledAfterIt) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_FALSE(mesh.ControlUp(kOther, At(2)));
  for (std::uint32_t lane = 0; lane < 4; ++lane) EXPECT_EQ(mesh.LaneUp(kOther, LaneId(lane), 4, At(2)), lane == 3);
  mesh.LaneDown(kOther, LaneId(1), At(10));
  const std::vector<Dial> first = mesh.TakeDials(At(100));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].missing, std::vector<LaneId>{LaneId(1)});
  mesh.LaneDown(kOther, LaneId(2), At(110));
  EXPECT_TRUE(mesh.TakeDials(At(200)).empty());
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(1), 4, At(300)));
  const std::vector<Dial> second = mesh.TakeDials(At(400));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].missing, std::vector<LaneId>{LaneId(2)});
  EXPECT_TRUE(mesh.LaneUp(kOther, LaneId(2), 4, At(500)));
  EXPECT_TRUE(mesh.TakeDials(At(100'000)).empty());
}

// The lanes of a first dial are known with the first of them.
TEST(Mesh, LaneOfAFirstDialMayFallBeforeTheOthersAreUp) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(0), 2, At(2)));
  mesh.LaneDown(kOther, LaneId(0), At(3));
  EXPECT_TRUE(mesh.TakeDials(At(100)).empty());
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(1), 2, At(100)));
  const std::vector<Dial> second = mesh.TakeDials(At(200));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].missing, std::vector<LaneId>{LaneId(0)});
}

TEST(Mesh, DialWithoutAnAnswerCountsAsFailed) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_TRUE(mesh.TakeDials(At(30'000)).empty());
  EXPECT_TRUE(mesh.TakeDials(At(30'001)).empty());
  EXPECT_EQ(mesh.TakeDials(At(30'021)).size(), 1U);
}

TEST(Mesh, LanesForSmallSegmentsAloneDoNotCarry) {
  constexpr Duration kLimit = std::chrono::milliseconds(100);
  Mesh mesh(kSelf);
  mesh.Want(kOther, "127.0.0.1:1");
  for (std::uint32_t lane = 0; lane < 3; ++lane) EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(lane), 11, At(1)));
  EXPECT_TRUE(mesh.CannotCarryFor(kOther, At(500), kLimit));
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(3), 11, At(500)));
  EXPECT_FALSE(mesh.CannotCarryFor(kOther, At(1000), kLimit));
}

}  // namespace
}  // namespace ringway::core
