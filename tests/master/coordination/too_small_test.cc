// Groups with fewer members than their minimum.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <vector>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class TooSmallTest : public CoordinatorTest {
 protected:
  // A formed group of connections 1 .. minimums.size().
  void FormWith(const std::vector<std::uint32_t>& minimums) {
    const std::uint64_t world = minimums.size();
    for (std::uint64_t i = 1; i <= world; ++i)
      peers_[i] = JoinWith(i, static_cast<std::uint32_t>(world), minimums[i - 1]);
    for (std::uint64_t a = 1; a <= world; ++a) {
      for (std::uint64_t b = a + 1; b <= world; ++b) Connect(a, b);
    }
    ASSERT_EQ(ViewOf(1).members_size(), static_cast<int>(world));
  }

  std::uint64_t JoinWith(std::uint64_t connection, std::uint32_t wait_world, std::uint32_t min_world) {
    return Join(connection, wait_world, "g", false, "", min_world);
  }

  // A report in which operations first .. last of channel 0 run.
  control::ToMaster Running(control::ToMaster report, std::uint64_t first, std::uint64_t last, bool update = false) {
    for (std::uint64_t seq = first; seq <= last; ++seq) {
      control::OpReport& op = *report.mutable_report()->add_ops();
      op.set_seq(seq);
      op.set_update_view(update);
    }
    return report;
  }

  // Returns the verdicts of the newest view, by sequence number.
  std::map<std::uint64_t, Code> Verdicts() {
    std::map<std::uint64_t, Code> out;
    const control::View view = ViewOf(1);
    for (const control::Verdict& verdict : view.verdicts()) out[verdict.seq()] = static_cast<Code>(verdict.code());
    return out;
  }
};

const std::map<std::uint64_t, Code> kTwoFailed = {{1, Code::kWorldTooSmall}, {2, Code::kWorldTooSmall}};

TEST_F(TooSmallTest, MinimumIsTheLargestAskedForAndStaysWhenItsMemberGoes) {
  FormWith({1, 2, 3});
  EXPECT_EQ(ViewOf(1).min_world(), 3u);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Running(Report(1, epoch, {3}), 1, 2));
  Say(2, Running(Report(2, epoch, {3}), 1, 1));
  Wait(kDetect + kBack, {1, 2});
  ASSERT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(ViewOf(1).min_world(), 3u);
  EXPECT_EQ(Verdicts(), kTwoFailed);
  EXPECT_NE(ViewOf(1).verdicts(0).text().find("2 peers and needs 3"), std::string::npos)
      << ViewOf(1).verdicts(0).text();
}

// Nobody is lost: a member stopped because it must not decide alone.
TEST_F(TooSmallTest, WhatIsSubmittedInAWorldThatIsTooSmallAlreadyFailsForAll) {
  FormWith({3, 3});
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Running(Report(1, epoch), 1, 2));
  Say(2, Running(Report(2, epoch), 1, 1, /*update=*/true));
  EXPECT_GT(ViewOf(1).epoch(), epoch);
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(Verdicts(), kTwoFailed);
}

TEST_F(TooSmallTest, EnoughMembersRetryAndFailNothing) {
  FormWith({2, 2, 2});
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Running(Report(1, epoch, {3}), 1, 2));
  Say(2, Running(Report(2, epoch, {3}), 1, 1));
  Wait(kDetect + kBack, {1, 2});
  ASSERT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_TRUE(Verdicts().empty());
}

TEST_F(TooSmallTest, NewcomerThatNeverCameInRaisesNoMinimum) {
  FormWith({1, 1});
  const std::uint64_t epoch = ViewOf(1).epoch();
  peers_[3] = JoinWith(3, 1, 3);
  for (const std::uint64_t i : {1, 2}) Connect(3, i);
  const control::View prepared = Last(1, &control::FromMaster::has_view)->view().view();
  ASSERT_GT(prepared.epoch(), epoch);
  EXPECT_EQ(prepared.min_world(), 3u);
  control::ToMaster withdraw;
  withdraw.mutable_withdraw()->set_peer(peers_[3]);
  Say(3, withdraw);
  for (const std::uint64_t i : {1, 2}) Say(i, Running(Report(i, prepared.epoch()), 1, 1));
  ASSERT_GT(ViewOf(1).epoch(), prepared.epoch());
  EXPECT_EQ(ViewOf(1).members_size(), 2);
  EXPECT_EQ(ViewOf(1).min_world(), 1u);
  EXPECT_TRUE(Verdicts().empty());
}

// The first verdict reached nobody, or one that is gone: the next recovery comes to it again from what is reported.
TEST_F(TooSmallTest, RestartedMasterDecidesTheSame) {
  coordinator_.emplace(CoordinatorOptions{.term = 1, .journaled = true});
  FormWith({3, 3, 3});
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Running(Report(1, epoch, {3}), 1, 2));
  Say(2, Running(Report(2, epoch, {3}), 1, 1));
  Wait(kDetect + kBack, {1, 2});
  ASSERT_EQ(Verdicts(), kTwoFailed);
  coordinator_.emplace(CoordinatorOptions{.term = 2, .journaled = true});
  coordinator_->Recover({journal_.at("g")}, now_);
  const std::uint64_t first = ViewOf(1).epoch();
  for (const std::uint64_t i : {1, 2}) Hello(i, "d" + std::to_string(i), i);
  Say(1, Running(Report(1, first), 1, 2));
  Say(2, Running(Report(2, first), 1, 1));
  ASSERT_GT(ViewOf(1).epoch(), first);
  EXPECT_EQ(Verdicts(), kTwoFailed);
}

}  // namespace
}  // namespace ringway
