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

TEST_F(LaneRenewalTest, EachOnceASecondAtMostAndLessOftenWhereItDoesNotHelp) {
  const std::vector<LaneHaste> slow{{.rate = 5e6}};
  std::vector<int> when;
  for (int tenth = 0; tenth <= 40; ++tenth, now_ += milliseconds(100)) {
    if (!Judge(slow).empty()) when.push_back(tenth);
  }
  EXPECT_EQ(when, (std::vector<int>{0, 10, 30})) << "tenths of a second";
  now_ += seconds(20);
  EXPECT_EQ(Judge(slow), Picked{0});
  now_ += seconds(1);
  EXPECT_EQ(Judge(slow), Picked{0}) << "it had helped for long";
}

}  // namespace
}  // namespace ringway::core
