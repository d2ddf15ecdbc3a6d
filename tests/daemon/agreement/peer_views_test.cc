// A Peer that is given its views by hand: worlds below the minimum, and what an UpdateView leaves behind.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <variant>

#include "daemon/agreement/peer.h"
#include "daemon/buffers/trainer_buffers.h"

namespace ringway::agreement {
namespace {

class PeerViewsTest : public testing::Test {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kPartner{2};

  PeerViewsTest() : peer_(kMe, "g", {}) {
    control::Candidates candidates;
    candidates.set_peer(kMe.value);
    control::PeerInfo& info = *candidates.add_others();
    info.set_peer_id(kPartner.value);
    info.set_address("127.0.0.1:1");
    peer_.OnCandidates(candidates, now_);
    peer_.OnLinkUp({kPartner, true, {}}, {}, now_);
    peer_.OnLinkUp({kPartner, false, LaneId(0)}, {.lanes = 1, .generation = 1}, now_);
  }

  // Installs a view of this peer and, where `world` is 2, its partner, in which operations first .. last of the channel
  // have failed.
  void Install(std::uint32_t counter, std::uint32_t world, std::uint32_t channel = 0, std::uint64_t first = 1,
               std::uint64_t last = 0) {
    control::ViewFor message = ViewWith(counter, world);
    control::View& view = *message.mutable_view();
    for (std::uint64_t seq = first; seq <= last; ++seq) {
      control::Verdict& verdict = *view.add_verdicts();
      verdict.set_channel(channel);
      verdict.set_seq(seq);
      verdict.set_code(static_cast<std::uint32_t>(Code::kWorldTooSmall));
    }
    Give(message);
  }

  static control::ViewFor ViewWith(std::uint32_t counter, std::uint32_t world) {
    control::ViewFor message;
    message.set_peer(kMe.value);
    control::View& view = *message.mutable_view();
    view.set_epoch(Epoch::Of(1, counter).value);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      control::PeerInfo& info = *view.add_members();
      info.set_peer_id(rank + 1);
      info.set_address("127.0.0.1:1");
      view.add_ring(rank);
    }
    view.set_min_world(3);
    return message;
  }

  void Give(const control::ViewFor& view) {
    peer_.OnView(view, now_);
    Take();
  }

  // Returns its token.
  std::uint64_t Submit(OpKind kind = OpKind::kAllReduce, std::uint32_t channel = 0) {
    Submission submission;
    submission.token = ++tokens_;
    submission.spec.channel = channel;
    submission.descriptor = {kind, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};
    submission.buffers = std::make_shared<buffers::TrainerBuffers>();
    EXPECT_TRUE(peer_.Submit(std::move(submission), now_).ok());
    Take();
    return tokens_;
  }

  void Take() {
    aborts_ = 0;
    for (Action& action : peer_.TakeActions()) {
      if (const auto* complete = std::get_if<Complete>(&action)) {
        reported_[complete->token] = complete->outcome.code;
      } else if (const auto* said = std::get_if<ToPeer>(&action)) {
        aborts_ += said->message.has_abort() ? 1 : 0;
      } else if (const auto* to_master = std::get_if<ToMaster>(&action)) {
        if (to_master->message.has_report()) report_ = to_master->message.report();
      }
    }
  }

  TimePoint now_{};
  Peer peer_;
  std::uint64_t tokens_ = 0;
  int aborts_ = 0;  // at the last event
  std::map<std::uint64_t, Code> reported_;
  std::optional<control::Report> report_;
};

TEST_F(PeerViewsTest, OperationBelowTheMinimumIsReportedAndFailsByVerdictOnly) {
  Install(1, 2);
  const std::uint64_t token = Submit();
  EXPECT_TRUE(reported_.empty()) << "not decided alone";
  EXPECT_EQ(aborts_, 1);
  ASSERT_TRUE(report_);
  EXPECT_EQ(report_->stop(), Epoch::Of(1, 1).value);
  ASSERT_EQ(report_->ops_size(), 1);
  EXPECT_EQ(report_->ops(0).stage(), control::OP_STAGE_RUNNING);
  EXPECT_FALSE(report_->ops(0).update_view());
  Install(2, 2, 0, 1, 1);
  EXPECT_EQ(reported_[token], Code::kWorldTooSmall);
}

TEST_F(PeerViewsTest, WhatFailedForOthersFailsAtOnceWhenItIsSubmitted) {
  Install(1, 2, 0, 1, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reported_[Submit(i == 0 ? OpKind::kUpdateView : OpKind::kAllReduce)], Code::kWorldTooSmall);
    EXPECT_EQ(aborts_, 0);
  }
  EXPECT_FALSE(reported_.contains(Submit()));
  EXPECT_EQ(aborts_, 1);
}

// It skips those, too, that failed for nobody here: the others have submitted them, and all know it.
TEST_F(PeerViewsTest, UpdateViewThatSucceedsSkipsWhatFailedForOthers) {
  Install(1, 1, 5, 1, 3);
  EXPECT_EQ(peer_.NextSequence(ChannelId(5)), 1u);
  const std::uint64_t token = Submit(OpKind::kUpdateView);
  while (peer_.HasWork()) peer_.Work();
  Take();
  ASSERT_TRUE(reported_.contains(token));
  EXPECT_EQ(reported_[token], Code::kOk) << "it waits for peers, so it needs none";
  EXPECT_EQ(peer_.NextSequence(ChannelId(5)), 4u);
  EXPECT_EQ(peer_.NextSequence(ChannelId(0)), 2u);
}

TEST_F(PeerViewsTest, UpdateViewThatFailsSkipsNothing) {
  Install(1, 1, 0, 1, 1);
  EXPECT_EQ(reported_[Submit(OpKind::kUpdateView)], Code::kWorldTooSmall);
  Install(2, 1, 5, 1, 3);
  EXPECT_EQ(peer_.NextSequence(ChannelId(5)), 1u);
  EXPECT_EQ(reported_[Submit(OpKind::kAllReduce, 5)], Code::kWorldTooSmall);
}

// Newcomers begin where the UpdateView left the channels, even if it is reported only after another recovery.
TEST_F(PeerViewsTest, UpdateViewThatIsCommittedByVerdictIsReportedForNewcomers) {
  Install(1, 2, 5, 1, 3);
  control::ViewFor prepared = ViewWith(2, 3);
  prepared.set_prepared(true);
  Give(prepared);
  const std::uint64_t token = Submit(OpKind::kUpdateView);
  control::ViewFor next = ViewWith(3, 2);
  control::Verdict& verdict = *next.mutable_view()->add_verdicts();
  verdict.set_seq(1);
  verdict.set_result_epoch(Epoch::Of(1, 1).value);
  verdict.set_prepared_epoch(Epoch::Of(1, 2).value);
  for (const PeerId peer : {kMe, kPartner}) verdict.add_contributors(peer.value);
  verdict.add_holders(kPartner.value);
  Give(next);
  ASSERT_TRUE(reported_.contains(token));
  EXPECT_EQ(reported_[token], Code::kOk);
  EXPECT_EQ(peer_.NextSequence(ChannelId(5)), 4u);
  report_.reset();
  peer_.OnAbort(Epoch::Of(1, 3), now_);
  Take();
  ASSERT_TRUE(report_);
  ASSERT_EQ(report_->ops_size(), 1) << "all hold it, but who is new may not";
  EXPECT_EQ(Epoch(report_->ops(0).prepared_epoch()), Epoch::Of(1, 2));
  std::map<std::uint32_t, std::uint64_t> seqs;
  for (const control::ChannelSeq& seq : report_->ops(0).next_seq()) seqs[seq.channel()] = seq.seq();
  EXPECT_EQ(seqs, (std::map<std::uint32_t, std::uint64_t>{{0, 2}, {5, 4}}));
}

}  // namespace
}  // namespace ringway::agreement
