#include "daemon/core/lane_renewal.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Test;
using Picked = std::vector<std::size_t>;

constexpr double kPace = 100e6;

class LaneRenewalTest : public Test {
 protected:
  Picked Judge(const std::vector<LaneHaste>& lanes, double pace = kPace) { return renewal_.Judge(lanes, pace, now_); }

  LaneRenewal renewal_;
  TimePoint now_{seconds(100)};
};

TEST_F(LaneRenewalTest, SlowLanesBeginAgainAndOthersDoNot) {
  EXPECT_EQ(Judge({{.rate = 24e6}, {.rate = 26e6}, {.rate = 1e6}}), (Picked{0, 2}));
}

TEST_F(LaneRenewalTest, WithoutAPaceCongestionControlIsLeftAlone) { EXPECT_EQ(Judge({{.rate = 1e3}}, 0), Picked()); }

TEST_F(LaneRenewalTest, OfWhatIsNotKnownNothingIsSaid) { EXPECT_EQ(Judge({{.rate = 0}, {}}), Picked()); }

TEST_F(LaneRenewalTest, OfThoseThatSendOneAtATime) {
  const std::vector<LaneHaste> lanes{{.rate = 5e6, .sending = true}, {.rate = 5e6, .sending = true}, {.rate = 5e6}};
  EXPECT_EQ(Judge(lanes), (Picked{0, 2}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), (Picked{1}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), Picked());
}

TEST_F(LaneRenewalTest, EachOnceASecondAtMost) {
  EXPECT_EQ(Judge({{.rate = 5e6}}), Picked{0});
  now_ += milliseconds(990);
  EXPECT_EQ(Judge({{.rate = 5e6}}), Picked());
  now_ += milliseconds(10);
  EXPECT_EQ(Judge({{.rate = 5e6}}), Picked{0});
}

}  // namespace
}  // namespace ringway::core
