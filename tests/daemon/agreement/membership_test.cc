#include "daemon/agreement/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ringway::agreement {
namespace {

class NoLinks final : public Links::Listener {
  void OnLaneDown(const LinkId&) override {}
  void OnFrameLost(PeerId, const links::SentFrame&) override {}
  void OnFrameRefused(const links::SentFrame&) override {}
  void OnFault(const std::vector<PeerId>&, const std::string&) override {}
};

class MembershipTest : public testing::Test, private Membership::Listener {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kOther{2};
  static constexpr PeerId kStranger{9};

  MembershipTest() : ctx_(kMe, "g", {}), links_(ctx_, attempts_, no_links_), membership_(ctx_, links_, table_, *this) {}

  static control::ViewFor ViewWith(std::uint64_t epoch) {
    control::ViewFor message;
    message.mutable_view()->set_epoch(epoch);
    for (const PeerId peer : {kMe, kOther}) {
      message.mutable_view()->add_members()->set_peer_id(peer.value);
      message.mutable_view()->add_ring(static_cast<std::uint32_t>(peer.value - kMe.value));
    }
    return message;
  }

  Membership::Change Install(std::uint64_t epoch) {
    calls_.clear();
    return membership_.OnView(ViewWith(epoch));
  }

  // The last report since this was asked.
  std::optional<control::Report> Report() {
    std::optional<control::Report> report;
    for (const Action& action : ctx_.TakeActions()) {
      const auto* said = std::get_if<ToMaster>(&action);
      if (said != nullptr && said->message.has_report()) report = said->message.report();
    }
    return report;
  }

  void OnStop() override { calls_ += "stop "; }
  void OnInstalled(const View&) override { calls_ += "installed "; }
  void OnPrepared(const View&) override {}
  void Describe(control::Report&) const override {}
  void OnEnd(Code code, const std::string&) override { ended_with_ = code; }
  bool HasToFinish() const override { return false; }

  Context ctx_;
  transfer::Attempts attempts_;
  NoLinks no_links_;
  Links links_;
  OpTable table_;
  Membership membership_;
  std::string calls_;
  std::optional<Code> ended_with_;
};

TEST_F(MembershipTest, DecidedViewStopsTheOneBeforeAndIsInstalled) {
  EXPECT_EQ(Install(5), Membership::Change::kDecided);
  EXPECT_EQ(calls_, "stop installed ");
  EXPECT_TRUE(ctx_.views.running());
  EXPECT_EQ(Install(5), Membership::Change::kNone) << "not twice";
  EXPECT_EQ(calls_, "");
}

TEST_F(MembershipTest, ViewThatWasStoppedIsRefused) {
  (void)Install(5);
  membership_.OnAbort(Epoch(7));
  EXPECT_EQ(Install(7), Membership::Change::kNone);
  EXPECT_TRUE(ctx_.views.frozen());
  EXPECT_EQ(Install(8), Membership::Change::kDecided);
  EXPECT_TRUE(ctx_.views.running());
}

TEST_F(MembershipTest, LossOfAMemberFreezesAndIsReportedOnce) {
  (void)Install(5);
  (void)Report();
  membership_.Accuse({kStranger, kMe}, "neither counts");
  EXPECT_TRUE(ctx_.views.running());
  EXPECT_FALSE(Report());
  membership_.Accuse({kOther}, "gone");
  EXPECT_TRUE(ctx_.views.frozen());
  const std::optional<control::Report> report = Report();
  ASSERT_TRUE(report);
  ASSERT_EQ(report->lost_size(), 1);
  EXPECT_EQ(report->lost(0), kOther.value);
  EXPECT_EQ(report->stop(), 5u);
  membership_.Accuse({kOther}, "still gone");
  EXPECT_FALSE(Report());
  (void)Install(6);
  (void)Report();
  membership_.AccuseMissing();
  ASSERT_TRUE(ctx_.views.frozen()) << "the view contains a lost peer";
  EXPECT_EQ(Report()->stop(), 6u);
}

TEST_F(MembershipTest, RecoveryThatTheDataPathRequestsWaitsForItsEndAndCountsInAViewThatRuns) {
  (void)Install(5);
  ctx_.RequestRecoveryLater("first");
  ctx_.RequestRecoveryLater("second");
  EXPECT_TRUE(ctx_.views.running());
  (void)Report();
  membership_.ActOnRequests();
  EXPECT_EQ(Report()->reason(), "second");
  ctx_.RequestRecoveryLater("while frozen");
  membership_.ActOnRequests();
  EXPECT_FALSE(Report());
}

TEST_F(MembershipTest, NewcomerStartsWhenAMemberSaysThatThePreparedViewIsInForce) {
  control::ViewFor prepared = ViewWith(5);
  prepared.set_prepared(true);
  EXPECT_EQ(membership_.OnView(prepared), Membership::Change::kNone);
  control::Activate activate;
  activate.set_epoch(5);
  activate.add_next_seq()->set_seq(4);
  EXPECT_EQ(membership_.OnActivate(activate), Membership::Change::kActivated);
  EXPECT_EQ(ctx_.view().epoch, Epoch(5));
  EXPECT_EQ(table_.NextSeq(ChannelId(0)), 4u);
}

TEST_F(MembershipTest, LeavingIsReportedAndEndsWithTheMastersWord) {
  (void)Install(5);
  (void)Report();
  membership_.Leave(ctx_.now);
  ASSERT_TRUE(ctx_.views.frozen());
  EXPECT_TRUE(Report()->leaving());
  membership_.OnEvicted(Code::kEvicted, "");
  EXPECT_EQ(ended_with_, Code::kLeft);
  EXPECT_TRUE(ctx_.views.ended());
}

TEST_F(MembershipTest, TrainerThatWroteToABufferLearnsSoHoweverItsPeerEnds) {
  (void)Install(5);
  membership_.LeaveAtOnce(Code::kBufferModified, "the input of operation 0:1");
  EXPECT_TRUE(ctx_.views.running()) << "this event goes on";
  membership_.TryLeave();
  EXPECT_TRUE(ctx_.views.frozen());
  membership_.OnEvicted(Code::kEvicted, "");
  EXPECT_EQ(ended_with_, Code::kBufferModified);
}

}  // namespace
}  // namespace ringway::agreement
