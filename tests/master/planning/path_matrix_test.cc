#include "master/planning/path_matrix.h"

#include <gtest/gtest.h>

#include <limits>

namespace ringway {
namespace {

TEST(PathMatrix, LinkRateIsTheLeastOfWhatIsKnown) {
  PathMatrix paths(2);
  EXPECT_EQ(paths.LinkRate(0, 1), 0);
  paths.set_rate(0, 1, 30e6);
  EXPECT_EQ(paths.LinkRate(0, 1), 30e6);
  paths.set_uplink(0, 20e6);
  EXPECT_EQ(paths.LinkRate(0, 1), 20e6);
  paths.set_downlink(1, 10e6);
  EXPECT_EQ(paths.LinkRate(0, 1), 10e6);
  EXPECT_EQ(paths.LinkRate(1, 0), 0) << "the other direction is another path";
}

TEST(PathMatrix, UnknownDelayIsTakenFromTheOtherWayElseTheMedian) {
  PathMatrix paths(3);
  paths.set_delay(0, 1, 0.010);
  paths.set_delay(0, 2, 0.030);
  paths.set_delay(2, 0, 0.050);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.delay(0, 1), 0.010);
  EXPECT_EQ(filled.delay(1, 0), 0.010);
  EXPECT_EQ(filled.delay(2, 0), 0.050) << "known, so not the other way's";
  EXPECT_EQ(filled.delay(1, 2), 0.030);
}

TEST(PathMatrix, UnknownRateIsWhatTheEndsAllowElseTheMedian) {
  PathMatrix paths(4);
  paths.set_uplink(2, 80e6);
  paths.set_uplink(3, 5e6);
  paths.set_rate(0, 1, 10e6);
  paths.set_rate(1, 0, 90e6);
  paths.set_rate(0, 2, 40e6);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.LinkRate(3, 0), 5e6);
  EXPECT_EQ(filled.LinkRate(2, 0), 80e6);
  EXPECT_EQ(filled.LinkRate(1, 2), 40e6) << "known links: 5, 5, 5, 10, 40, 80, 80, 80, 90";
}

TEST(PathMatrix, UnknownUplinkIsTheBestPathThatLeavesIt) {
  PathMatrix paths(3);
  paths.set_rate(0, 1, 10e6);
  paths.set_rate(0, 2, 30e6);
  paths.set_uplink(1, 7e6);
  paths.set_rate(1, 0, 50e6);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.uplink(0), 30e6);
  EXPECT_EQ(filled.uplink(1), 7e6) << "known";
  EXPECT_EQ(filled.downlink(2), 30e6);
}

TEST(PathMatrix, AMeasuredUplinkStandsForAnUnknownDownlinkThatIsNotMore) {
  PathMatrix paths(3);
  paths.set_rate(0, 1, 10e6);
  paths.set_rate(1, 0, 10e6);
  paths.set_rate(0, 2, 10e6);
  paths.set_uplink(1, 40e6);
  paths.set_uplink(0, 5e6);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.downlink(1), 40e6);
  EXPECT_EQ(filled.downlink(0), 10e6) << "what comes in by one path shows more";
  paths.set_downlink(1, 20e6);
  EXPECT_EQ(WithAssumptions(paths).downlink(1), 20e6) << "known";
}

TEST(PathMatrix, PathsAlikeFromThreeHostsThatSendMoreToOthersShowADownlink) {
  PathMatrix paths(4);
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) {
    paths.set_rate(from, to, to == 2 ? 10e6 : 50e6);
    paths.set_delay(from, to, 0.01);
  });
  for (std::size_t peer = 0; peer < 4; ++peer) paths.set_uplink(peer, 60e6);
  EXPECT_EQ(WithAssumptions(paths).downlink(2), 10e6);
  EXPECT_EQ(WithAssumptions(paths).downlink(1), 60e6);
  PathMatrix near = paths;
  near.set_delay(0, 1, 1e-4);
  near.set_delay(1, 0, 1e-4);
  EXPECT_EQ(WithAssumptions(near).downlink(2), 60e6) << "two of them are neighbours, and share a slow path";
  paths.set_rate(0, 2, 20e6);
  EXPECT_EQ(WithAssumptions(paths).downlink(2), 60e6) << "one is faster: it is the paths";
}

TEST(PathMatrix, NothingKnownIsAssumedAlike) {
  const PathMatrix filled = WithAssumptions(PathMatrix(2));
  EXPECT_EQ(filled.LinkRate(0, 1), kAssumedRate);
  EXPECT_EQ(filled.uplink(1), kAssumedRate);
  EXPECT_EQ(filled.delay(0, 1), 0);
}

TEST(PathMatrixDeathTest, RefusesWhatNoMeasurementCanBe) {
  PathMatrix paths(2);
  EXPECT_DEATH(paths.set_delay(0, 1, -1), "invariant");
  EXPECT_DEATH(paths.set_rate(0, 1, std::numeric_limits<double>::quiet_NaN()), "invariant");
  EXPECT_DEATH(paths.set_uplink(0, std::numeric_limits<double>::infinity()), "invariant");
  EXPECT_DEATH(paths.set_delay(1, 1, 0.1), "invariant");
  EXPECT_DEATH(paths.set_downlink(2, 1), "invariant");
}

}  // namespace
}  // namespace ringway
