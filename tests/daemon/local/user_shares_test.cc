#include "daemon/local/user_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::local {
namespace {

constexpr std::uint32_t kGreedyUid = 1001;
constexpr TimePoint kStart{std::chrono::hours(1)};

class UserSharesTest : public testing::Test {
 protected:
  Duration Join(TimePoint now = kStart) { return shares_.TakeJoin(greedy_, now); }

  UserShares shares_{{.sessions = 8, .descriptors = 16, .unlimited = {0, 5}}};
  HostUser greedy_ = shares_.UserOf(kGreedyUid);
  HostUser modest_ = shares_.UserOf(1002);
  HostUser root_ = shares_.UserOf(0);
};

TEST_F(UserSharesTest, SessionsOfOneUserLeaveSomeToAnother) {
  std::vector<PoolCharge> held;
  for (int i = 0; i < 6; ++i) held.push_back(shares_.TakeSession(greedy_).value());
  const auto refused = shares_.TakeSession(greedy_);
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_NE(refused.status().text().find("user 1001 has 6, its share of the 8 sessions"), std::string::npos);
  EXPECT_TRUE(shares_.TakeSession(modest_).ok());
  held.pop_back();
  EXPECT_TRUE(shares_.TakeSession(greedy_).ok());
}

// A stranger who comes and takes all that it can costs a user none of the sessions that it had.
TEST_F(UserSharesTest, WhoWasThereMayComeAndGoAsBeforeBesideAGreedyUser) {
  std::vector<PoolCharge> mine, theirs;
  for (int i = 0; i < 6; ++i) mine.push_back(shares_.TakeSession(modest_).value());
  const auto take_all = [&] {
    for (auto taken = shares_.TakeSession(greedy_); taken.ok(); taken = shares_.TakeSession(greedy_))
      theirs.push_back(std::move(taken).value());
  };
  take_all();
  EXPECT_EQ(theirs.size(), 2U);
  for (int i = 0; i < 20; ++i) {
    mine.pop_back();
    take_all();
    auto again = shares_.TakeSession(modest_);
    ASSERT_TRUE(again.ok()) << again.status().text();
    mine.push_back(std::move(again).value());
  }
  mine.clear();
  take_all();
  EXPECT_EQ(theirs.size(), 6U) << "what a user who has left leaves is free at once";
}

TEST_F(UserSharesTest, WhatIsNoLongerNeededIsFreeAfterAWhile) {
  std::vector<PoolCharge> mine;
  for (int i = 0; i < 6; ++i) mine.push_back(shares_.TakeSession(modest_).value());
  mine.resize(1);
  EXPECT_EQ(shares_.sessions().limit(greedy_), 2U);
  for (int i = 0; i < 3; ++i) shares_.Age(kStart + i * FairPool::kKeep);
  EXPECT_EQ(shares_.sessions().limit(greedy_), 6U);
}

TEST_F(UserSharesTest, WhenNothingIsLeftTheTextBlamesNobody) {
  std::vector<PoolCharge> held;
  for (int i = 0; i < 8; ++i) held.push_back(shares_.TakeSession(root_).value());
  const auto refused = shares_.TakeSession(modest_);
  EXPECT_NE(refused.status().text().find("all users have 8 of the 8 sessions"), std::string::npos);
}

TEST_F(UserSharesTest, DaemonsOwnUserIsNotLimited) {
  EXPECT_FALSE(shares_.UserOf(5).is_limited);
  EXPECT_TRUE(shares_.TakeDescriptors(shares_.UserOf(5), 16).ok());
  EXPECT_FALSE(shares_.TakeDescriptors(greedy_, 13).ok());
}

TEST_F(UserSharesTest, JoinsBeyondTheBurstGetTheirTurnsOneAPeriod) {
  for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) EXPECT_EQ(Join(), Duration());
  EXPECT_EQ(Join(), UserShares::kJoinPeriod);
  EXPECT_EQ(Join(), 2 * UserShares::kJoinPeriod);
  EXPECT_EQ(Join(kStart + UserShares::kJoinPeriod), 2 * UserShares::kJoinPeriod);
  EXPECT_EQ(shares_.TakeJoin(modest_, kStart), Duration()) << "another has its own";
}

TEST_F(UserSharesTest, JoinThatIsGivenUpReturnsItsTurn) {
  for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) (void)Join();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Join(), UserShares::kJoinPeriod);
    shares_.ReturnJoin(greedy_);
  }
}

TEST_F(UserSharesTest, RestFillsTheBucketUpToTheBurst) {
  for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) (void)Join();
  const TimePoint later = kStart + 10 * UserShares::kJoinsAtOnce * UserShares::kJoinPeriod;
  for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) EXPECT_EQ(Join(later), Duration());
  EXPECT_GT(Join(later), Duration());
}

TEST_F(UserSharesTest, RootJoinsAndLogsAsItLikes) {
  for (std::int64_t i = 0; i < 3 * UserShares::kJoinsAtOnce; ++i)
    EXPECT_EQ(shares_.TakeJoin(root_, kStart), Duration());
  for (std::int64_t i = 0; i < 3 * UserShares::kLinesAtOnce; ++i) EXPECT_EQ(shares_.TakeLine(root_, kStart), 0U);
}

TEST_F(UserSharesTest, LinesBeyondTheShareAreLeftOutAndCounted) {
  for (std::int64_t i = 0; i < UserShares::kLinesAtOnce; ++i) EXPECT_EQ(shares_.TakeLine(greedy_, kStart), 0U);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(shares_.TakeLine(greedy_, kStart), std::nullopt);
  EXPECT_EQ(shares_.TakeLine(modest_, kStart), 0U);
  EXPECT_TRUE(shares_.TakeLineSummaries(kStart).empty());
  const auto summaries = shares_.TakeLineSummaries(kStart + UserShares::kLinePeriod);
  ASSERT_EQ(summaries.size(), 1U);
  EXPECT_EQ(summaries[0], (std::pair<std::uint32_t, std::uint64_t>(kGreedyUid, 7)));
}

TEST_F(UserSharesTest, CrowdOfUsersDoesNotMakeItForgetWhoJoinsMost) {
  for (std::int64_t i = 0; i < 2 * UserShares::kJoinsAtOnce; ++i) (void)Join();
  for (std::uint32_t uid = 10'000; uid < 10'000 + UserShares::kUsersMax + 10; ++uid)
    (void)shares_.TakeJoin(shares_.UserOf(uid), kStart);
  EXPECT_GT(Join(), UserShares::kJoinsAtOnce * UserShares::kJoinPeriod);
}

}  // namespace
}  // namespace ringway::local
