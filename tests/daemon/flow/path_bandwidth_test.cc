// The bandwidth of paths and of their uplink, as a host measures it from made-up traffic, in ticks of 50 ms.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "daemon/flow/host_flow.h"

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

class PathBandwidthTest : public testing::Test {
 protected:
  static constexpr PeerId kSelf{1};
  static constexpr PeerId kA{2};
  static constexpr PeerId kB{3};
  static constexpr double kTickSeconds = 0.05;

  struct Flow {
    PeerId to;
    double rate = 0;
    bool backlogged = true;
    bool receiver_limited = false;
    bool unsent = false;
    Duration round_trip = milliseconds(100);
    Duration queueing{};
    double lost_share = 0;
  };

  void Run(const std::vector<Flow>& flows, int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      now_ += milliseconds(50);
      for (const Flow& flow : flows) {
        const double delivered = flow.rate * kTickSeconds;
        host_.Add(kSelf, {.other = flow.to,
                          .traffic = {.given = delivered,
                                      .delivered = delivered,
                                      .resent = delivered * flow.lost_share,
                                      .queueing = flow.queueing,
                                      .standing = flow.queueing},
                          .backlogged = flow.backlogged,
                          .unsent = flow.unsent,
                          .receiver_limited = flow.receiver_limited,
                          .lanes_are_enough = true,
                          .round_trip = flow.round_trip});
      }
      host_.Decide(now_);
    }
  }
  void Rest(Duration time) {
    Run({}, 1);
    now_ += time;
  }
  Bandwidth Of(PeerId other) { return host_.TakeBandwidth({.self = kSelf, .other = other}); }
  double Measured(PeerId other) {
    const Bandwidth taken = Of(other);
    return taken.is_measured ? taken.bytes_per_second : 0;
  }

  HostFlow host_;
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(PathBandwidthTest, ABackloggedPathIsMeasuredAndTakenOnce) {
  Run({{kA, 50e6}}, 20);
  EXPECT_NEAR(Measured(kA), 50e6, 1e4);
  EXPECT_EQ(Of(kA).bytes_per_second, 0) << "nothing was measured since";
  EXPECT_EQ(Of(kB).bytes_per_second, 0);
}

TEST_F(PathBandwidthTest, WhatTheTrainerSendsByDropsSaysNothingOfThePath) {
  Run({{kA, 2e6, false}}, 100);
  EXPECT_EQ(Of(kA).bytes_per_second, 0);
  Run({{.to = kB, .rate = 2e6, .backlogged = false, .unsent = true}}, 100);
  EXPECT_FALSE(Of(kB).is_measured) << "the lanes took all there was";
}

TEST_F(PathBandwidthTest, AReceiverThatDoesNotReadIsNotAPathThatIsSlow) {
  Run({{kA, 1e6, true, true}}, 40);
  EXPECT_FALSE(Of(kA).is_measured);
  Run({{kA, 50e6}}, 40);
  EXPECT_NEAR(Measured(kA), 50e6, 1e6);
  Run({{kA, 1e6, true, true}}, 40);
  EXPECT_NEAR(Measured(kA), 50e6, 1e6);
}

// The uplink's queue is seen by both.
TEST_F(PathBandwidthTest, PathsThatShareAnUplinkKeepTheirBandwidthAndShowItsOwn) {
  Run({{kA, 40e6}}, 20);
  Run({{kB, 40e6}}, 20);
  const Flow half{.to = kA, .rate = 20e6, .queueing = milliseconds(40), .lost_share = 0.1};
  Flow other = half;
  other.to = kB;
  Run({half, other}, 40);
  EXPECT_NEAR(Measured(kA), 40e6, 1e6);
  EXPECT_NEAR(Measured(kB), 40e6, 1e6);
  const Bandwidth uplink = host_.UplinkBandwidth();
  EXPECT_TRUE(uplink.is_measured);
  EXPECT_NEAR(uplink.bytes_per_second, 40e6, 4e6);
}

TEST_F(PathBandwidthTest, PathsNeverSeenAloneShowLowerBounds) {
  Run({{kA, 20e6}, {kB, 20e6}}, 100);
  const Bandwidth path = Of(kA);
  EXPECT_NEAR(path.bytes_per_second, 20e6, 1e4);
  EXPECT_FALSE(path.is_measured);
  EXPECT_NEAR(host_.UplinkBandwidth().bytes_per_second, 40e6, 1e4);
  EXPECT_FALSE(host_.UplinkBandwidth().is_measured);
}

TEST_F(PathBandwidthTest, AnUplinkThatFallsWithoutAnyQueueIsMeasuredAndItsPathsKeepTheirBandwidth) {
  Run({{kA, 150e6}}, 40);
  Run({{kB, 150e6}}, 40);
  Run({{kA, 100e6}, {kB, 100e6}}, 100);
  EXPECT_TRUE(host_.UplinkBandwidth().is_measured);
  EXPECT_NEAR(host_.UplinkBandwidth().bytes_per_second, 200e6, 1e6);
  Run({{kA, 10e6}, {kB, 10e6}}, 100);
  EXPECT_TRUE(host_.UplinkBandwidth().is_measured);
  EXPECT_NEAR(host_.UplinkBandwidth().bytes_per_second, 20e6, 1e6);
  EXPECT_NEAR(Measured(kA), 150e6, 1e6);
  EXPECT_NEAR(Measured(kB), 150e6, 1e6);
}

TEST_F(PathBandwidthTest, APathThatFallsBesideOneThatDoesNotIsMeasured) {
  Run({{kA, 100e6}}, 40);
  Run({{kB, 100e6}}, 40);
  Run({{kA, 100e6}, {kB, 100e6}}, 40);
  Run({{kA, 10e6}, {kB, 100e6}}, 100);
  EXPECT_NEAR(Measured(kA), 10e6, 2.5e6);
  EXPECT_NEAR(Measured(kB), 100e6, 1e6);
  EXPECT_NEAR(host_.UplinkBandwidth().bytes_per_second, 200e6, 1e6) << "it has room, and is not known to have less";
}

TEST_F(PathBandwidthTest, LossesOfAPathThatFallsBesideOneThatDoesNotLimitIt) {
  Run({{kA, 100e6}}, 40);
  Run({{kB, 100e6}}, 40);
  Run({{kA, 100e6}, {kB, 100e6}}, 40);
  Run({{.to = kA, .rate = 10e6, .lost_share = 0.1}, {kB, 100e6}}, 100);
  EXPECT_GT(host_.rate({.self = kSelf, .other = kA}), 0);
  EXPECT_EQ(host_.rate({.self = kSelf, .other = kB}), 0);
}

TEST_F(PathBandwidthTest, APathThatGetsASmallPartOfAFullUplinkKeepsItsBandwidth) {
  Run({{kA, 150e6}}, 40);
  Run({{kB, 150e6}}, 40);
  Run({{kA, 100e6}, {kB, 100e6}}, 40);
  Run({{kA, 50e6}, {kB, 150e6}}, 100);
  EXPECT_NEAR(Measured(kA), 150e6, 1e6);
}

TEST_F(PathBandwidthTest, AFastPathThatEndsAtOnceShowsALowerBound) {
  const Duration near = Duration(200);
  Run({{.to = kA, .rate = 0, .round_trip = near}}, 1);
  Run({{.to = kA, .rate = 600e6, .round_trip = near}}, 1);
  EXPECT_EQ(Of(kA).bytes_per_second, 0);
  Run({{.to = kA, .rate = 0, .backlogged = false, .round_trip = near}}, 1);
  const Bandwidth path = Of(kA);
  EXPECT_NEAR(path.bytes_per_second, 300e6, 1e6) << "two ticks";
  EXPECT_FALSE(path.is_measured);
}

TEST_F(PathBandwidthTest, NearbyPathsAreMeasuredAndNeverLimited) {
  const Duration near = Duration(200);
  const Flow drops{.to = kA, .rate = 500e6, .round_trip = near, .queueing = milliseconds(20), .lost_share = 0.1};
  Run({drops}, 40);
  EXPECT_NEAR(Measured(kA), 500e6, 1e6);
  EXPECT_EQ(host_.rate({.self = kSelf, .other = kA}), 0);
  Flow other = drops;
  other.to = kB;
  Run({drops, other}, 40);
  EXPECT_NEAR(host_.UplinkBandwidth().bytes_per_second, 1000e6, 1e6);
  EXPECT_FALSE(host_.UplinkBandwidth().is_measured);
  const PathKey first{.self = kSelf, .other = kA};
  host_.OnLinked({.self = kSelf, .other = PeerId(9)}, "lan", near, now_);
  host_.Forget(kSelf, PeerId(9));
  EXPECT_EQ(host_.limit(first), 0);
}

TEST_F(PathBandwidthTest, OperationsThatEndInSlowStartAfterPausesDoNotLowerIt) {
  Run({{kA, 50e6}}, 60);
  for (int operation = 0; operation < 20; ++operation) {
    Rest(std::chrono::seconds(5));
    for (int tick = 0; tick < 40; ++tick) {
      Run({{kA, std::min(50e6, 1e6 * (1 << std::min(tick / 2, 10)))}}, 1);
      const Bandwidth taken = Of(kA);
      if (taken.is_measured) {
        EXPECT_GT(taken.bytes_per_second, 45e6) << "tick " << tick << " of operation " << operation;
      }
    }
  }
}

TEST_F(PathBandwidthTest, AfterAPauseAPathThatFellIsMeasuredWithoutWhatItCarriedBefore) {
  Run({{kA, 50e6}}, 61);
  (void)Of(kA);
  Rest(std::chrono::seconds(11));
  Run({{kA, 10e6}}, 6);
  const Bandwidth first = Of(kA);
  EXPECT_FALSE(first.is_measured);
  EXPECT_NEAR(first.bytes_per_second, 10e6, 1e4);
  Run({{kA, 10e6}}, 4);
  EXPECT_NEAR(Measured(kA), 10e6, 1e4) << "in half a second";
}

// Kept connections begin with what a group of an hour ago has found.
class AfterAnHourTest : public PathBandwidthTest {
 protected:
  static constexpr PathKey kBefore{.self = kSelf, .other = kA};
  static constexpr PathKey kNext{.self = PeerId(8), .other = PeerId(9)};

  void RunGroupThenRest(Duration rest) {
    host_.OnLinked(kBefore, "a", milliseconds(100), now_);
    Flow driven{.to = kA, .rate = 50e6, .queueing = milliseconds(40), .lost_share = 0.1};
    Run({driven}, 10);
    driven.lost_share = 0;
    driven.queueing = {};
    Run({driven}, 20);
    limit_ = host_.rate(kBefore);
    ASSERT_GT(limit_, 40e6);
    host_.Forget(kSelf);
    now_ += rest;
    host_.OnLinked(kNext, "a", milliseconds(100), now_);
  }
  double limit_ = 0;
};

TEST_F(AfterAnHourTest, TheNextPairsLimitIsTheOneThatWasFound) {
  RunGroupThenRest(std::chrono::minutes(59));
  EXPECT_EQ(host_.rate(kNext), limit_);
  EXPECT_EQ(host_.Wait(kNext, now_), Duration()) << "it does not wait for an uplink that others use";
}

TEST_F(AfterAnHourTest, LaterItIsAFirstGuessThatGivesWay) {
  RunGroupThenRest(std::chrono::minutes(61));
  EXPECT_EQ(host_.rate(kNext), limit_);
  for (int tick = 0; tick < 10; ++tick) {
    now_ += milliseconds(50);
    host_.Add(kNext.self, {.other = kNext.other,
                           .traffic = {.given = 4e6, .delivered = 4e6},
                           .backlogged = true,
                           .lanes_are_enough = true,
                           .round_trip = milliseconds(100)});
    host_.Decide(now_);
  }
  EXPECT_NEAR(host_.rate(kNext), 80e6, 1e6) << "the path carries more by now";
}

TEST_F(PathBandwidthTest, APairThatRestsForAnHourKeepsItsLimitAndFindsALowerOneInASecond) {
  Flow driven{.to = kA, .rate = 50e6, .queueing = milliseconds(40), .lost_share = 0.1};
  Run({driven}, 10);
  driven.lost_share = 0;
  driven.queueing = {};
  Run({driven}, 20);
  const PathKey path{.self = kSelf, .other = kA};
  const double limit = host_.rate(path);
  ASSERT_GT(limit, 40e6);
  Run({}, 20 * 3600);
  EXPECT_GE(host_.rate(path), 0.9 * limit);
  Flow slow{.to = kA, .rate = 10e6, .queueing = milliseconds(40), .lost_share = 0.1};
  Run({slow}, 60);
  EXPECT_LT(host_.rate(path), 15e6) << "within three seconds";
}

}  // namespace
}  // namespace ringway::flow
