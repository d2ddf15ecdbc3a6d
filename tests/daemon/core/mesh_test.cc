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
