#include "daemon/flow/lane_renewal.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Test;
using Picked = std::vector<std::size_t>;

constexpr double kPace = 100e6;

class LaneRenewalTest : public Test {
 protected:
  Picked Judge(const std::vector<LaneRate>& lanes, double pace = kPace) { return renewal_.Judge(lanes, pace, now_); }

  LaneRenewal renewal_;
  TimePoint now_{seconds(100)};
};

TEST_F(LaneRenewalTest, SlowLanesBeginAgainAndOthersDoNot) {
  EXPECT_EQ(Judge({{.rate = 24e6}, {.rate = 26e6}, {.rate = 1e6}}), (Picked{0, 2}));
}

TEST_F(LaneRenewalTest, WithoutAPaceCongestionControlIsLeftAlone) { EXPECT_EQ(Judge({{.rate = 1e3}}, 0), Picked()); }

TEST_F(LaneRenewalTest, OfWhatIsNotKnownNothingIsSaid) { EXPECT_EQ(Judge({{.rate = 0}, {}}), Picked()); }

TEST_F(LaneRenewalTest, OfThoseThatSendOneAtATime) {
  const std::vector<LaneRate> lanes{{.rate = 5e6, .sending = true}, {.rate = 5e6, .sending = true}, {.rate = 5e6}};
  EXPECT_EQ(Judge(lanes), (Picked{0, 2}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), (Picked{1}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), Picked());
}

TEST_F(LaneRenewalTest, EachOnceASecondAtMostAndLessOftenWhereItDoesNotHelp) {
  const std::vector<LaneRate> slow{{.rate = 5e6}};
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

TEST_F(LaneRenewalTest, InTenSecondsEachBeginsAgainAndNoTwoTogetherThatSend) {
  for (const std::size_t count : {1U, 8U, 21U, 53U, 79U}) {
    renewal_ = LaneRenewal();
    std::vector<LaneRate> lanes(count, {.rate = 50e6});
    std::vector<TimePoint> begun(count, now_);
    for (std::size_t tenth = 0; tenth < 900; ++tenth, now_ += milliseconds(100)) {
      const auto sends = [&](std::size_t lane) { return tenth < 300 || (tenth < 600 && lane % 2 == tenth % 2); };
      for (std::size_t i = 0; i < count; ++i) lanes[i].sending = sends(i);
      int of_senders = 0;
      for (const std::size_t lane : Judge(lanes)) {
        of_senders += sends(lane);
        EXPECT_GE(now_ - begun[lane], seconds(2));
        begun[lane] = now_;
      }
      ASSERT_LE(of_senders, 1);
      for (const TimePoint then : begun) ASSERT_LT(now_ - then, seconds(10));
    }
  }
}

TEST_F(LaneRenewalTest, InTurnOnlyWhileThereIsAPaceAndNotDuringRecovery) {
  const std::vector<LaneRate> recovers{{.rate = 0, .sending = true}, {.rate = 50e6, .sending = true}};
  EXPECT_EQ(Judge(recovers), Picked());
  now_ += seconds(9);
  EXPECT_EQ(Judge(recovers, 0), Picked());
  EXPECT_EQ(Judge(recovers), Picked{1});
}

TEST_F(LaneRenewalTest, AfterARestAllBeginAgainThatHaveNotJustDoneSo) {
  const std::vector<LaneRate> slow_and_fast{{.rate = 5e6}, {.rate = 50e6}};
  EXPECT_EQ(renewal_.AfterRest(kPace, now_), Picked()) << "of no lanes";
  EXPECT_EQ(Judge(slow_and_fast), Picked{0});
  EXPECT_EQ(renewal_.AfterRest(kPace, now_ + seconds(1)), Picked());
  now_ += seconds(2);
  EXPECT_EQ(renewal_.AfterRest(0, now_), Picked()) << "there is no pace";
  EXPECT_EQ(renewal_.AfterRest(kPace, now_), (Picked{0, 1}));
  EXPECT_EQ(renewal_.AfterRest(kPace, now_ + seconds(1)), Picked());
}

TEST_F(LaneRenewalTest, TurnsGoOnAfterARestSoThatTheTenSecondsNeverPass) {
  std::vector<LaneRate> lanes(8, {.rate = 50e6});
  Judge(lanes);
  now_ += seconds(60);
  for (LaneRate& lane : lanes) lane.sending = true;
  ASSERT_EQ(renewal_.AfterRest(kPace, now_).size(), lanes.size());
  std::vector<TimePoint> begun(lanes.size(), now_);
  for (int tenth = 0; tenth < 300; ++tenth, now_ += milliseconds(100)) {
    for (const std::size_t lane : Judge(lanes)) begun[lane] = now_;
    for (const TimePoint then : begun) ASSERT_LT(now_ - then, seconds(10));
  }
}

}  // namespace
}  // namespace ringway::flow
