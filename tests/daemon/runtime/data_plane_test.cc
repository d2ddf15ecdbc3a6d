#include "daemon/runtime/data_plane.h"

#include <gtest/gtest.h>

#include "tests/daemon/runtime/planes.h"

namespace ringway::daemon {
namespace {

TEST(DataPlaneTest, TwoDaemonsSumOverStreamsInMemory) {
  Planes planes;
  ASSERT_EQ(planes.Join(), "");
  EXPECT_EQ(planes.AllReduce(1), "");
  EXPECT_EQ(planes.AllReduce(2), "");
}

TEST(DataPlaneTest, LaneThatBreaksInTheMiddleIsReplacedAndTheSumIsRight) {
  Planes planes;
  ASSERT_EQ(planes.Join(), "");
  EXPECT_EQ(planes.AllReduce(1), "");
  EXPECT_EQ(planes.AllReduceOverABreakingLane(2), "");
  EXPECT_EQ(planes.AllReduce(3), "");
}

}  // namespace
}  // namespace ringway::daemon
