#include "daemon/agreement/links.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace ringway::agreement {
namespace {

class PeerLinksTest : public testing::Test, private Links::Listener {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kOther{2};
  static constexpr LinkId kControl{.other = kOther, .control = true, .lane = {}};
  static constexpr LinkId kLane{.other = kOther, .control = false, .lane = LaneId(0)};

  static control::PeerInfo InfoOf(PeerId peer) {
    control::PeerInfo info;
    info.set_peer_id(peer.value);
    info.set_address("127.0.0.1:1");
    return info;
  }
  PeerLinksTest() : ctx_(kMe, "g", {}), links_(ctx_, attempts_, *this) {
    View view;
    view.epoch = Epoch(1);
    view.members = {kMe, kOther};
    view.infos.resize(2);
    view.ranks = {{kMe, Rank(0)}, {kOther, Rank(1)}};
    (void)ctx_.views.Install(std::move(view));
    links_.Want(InfoOf(kOther));
  }

  // Numbers of the messages that have left.
  std::vector<std::uint64_t> Sent() {
    std::vector<std::uint64_t> numbers;
    for (const Action& action : ctx_.TakeActions()) {
      if (const auto* said = std::get_if<ToPeer>(&action)) numbers.push_back(said->message.number());
    }
    return numbers;
  }
  static control::PeerMessage Message() {
    control::PeerMessage message;
    message.mutable_done()->set_seq(1);
    return message;
  }
  bool LaneUp(std::uint64_t generation) { return links_.OnUp(kLane, {.lanes = 1, .generation = generation}); }
  void SendFrame(std::uint64_t attempt) {
    links::SentFrame frame;
    frame.attempt = attempt;
    links_.CountOut(kLane, frame);
  }

  void OnLaneDown(const LinkId& lane) override { down_.push_back(lane); }
  void OnFrameLost(PeerId, const links::SentFrame& frame) override { lost_.push_back(frame.attempt); }
  void OnFrameRefused(const links::SentFrame& frame) override { refused_.push_back(frame.attempt); }
  void OnFault(const std::vector<PeerId>& others, const std::string& why) override {
    accused_.insert(accused_.end(), others.begin(), others.end());
    why_ = why;
  }

  Context ctx_;
  transfer::Attempts attempts_;
  Links links_;
  std::vector<LinkId> down_;
  std::vector<std::uint64_t> lost_, refused_;
  std::vector<PeerId> accused_;
  std::string why_;
};

TEST_F(PeerLinksTest, PairStandsWithItsControlLinkAndItsLanes) {
  EXPECT_FALSE(links_.OnUp(kControl, {}));
  EXPECT_TRUE(LaneUp(1));
}

TEST_F(PeerLinksTest, WhatWasSentWhileTheControlLinkWasDownLeavesWhenItIsUpAgain) {
  (void)links_.OnUp(kControl, {});
  links_.Send(kOther, Message());
  EXPECT_EQ(Sent(), std::vector<std::uint64_t>{1});
  (void)LaneUp(1);
  links_.OnDown(kControl, "reset");
  EXPECT_TRUE(accused_.empty()) << "a link that breaks accuses nobody";
  links_.Send(kOther, Message());
  EXPECT_TRUE(Sent().empty());
  (void)links_.OnUp(kControl, {});
  EXPECT_EQ(Sent(), (std::vector<std::uint64_t>{1, 2})) << "all that is not acknowledged";
}

TEST_F(PeerLinksTest, FramesThatTheOtherEndDidNotTakeAreLostNewestFirst) {
  (void)links_.OnUp(kControl, {});
  (void)LaneUp(1);
  for (int i = 0; i < 3; ++i) SendFrame(attempts_.Begin(nullptr));
  control::LaneClosed closed;
  closed.set_lane(0);
  closed.set_generation(1);
  closed.set_frames(1);
  closed.set_refused(true);
  links_.OnLaneClosed(kOther, closed);
  EXPECT_EQ(down_, std::vector<LinkId>{kLane});
  EXPECT_EQ(refused_, std::vector<std::uint64_t>{2});
  EXPECT_EQ(lost_, (std::vector<std::uint64_t>{3, 2}));
  EXPECT_FALSE(links_.IsUp(kLane));
}

TEST_F(PeerLinksTest, WhoHasNoLinkLeftAndRefusesNewOnesIsAccused) {
  (void)links_.OnUp(kControl, {});
  (void)LaneUp(1);
  links_.OnDown(kLane, "reset");
  links_.OnDown(kControl, "reset");
  EXPECT_TRUE(accused_.empty());
  links_.OnDialFailed(kOther, true, {Code::kJoinRefused, "no such peer"});
  EXPECT_EQ(accused_, std::vector<PeerId>{kOther});
}

TEST_F(PeerLinksTest, GapInTheOwnLoopIsNobodysSilence) {
  (void)links_.OnUp(kControl, {});
  ctx_.now += std::chrono::hours(1);
  EXPECT_FALSE(links_.SilentFor(ctx_.view().plan.detect).empty());
  EXPECT_TRUE(links_.OnTick());
  EXPECT_TRUE(links_.SilentFor(ctx_.view().plan.detect).empty());
  EXPECT_FALSE(links_.OnTick());
}

TEST_F(PeerLinksTest, NothingIsLeftOfAPairThatIsForgotten) {
  (void)links_.OnUp(kControl, {});
  (void)LaneUp(1);
  links_.Forget(kOther);
  EXPECT_FALSE(links_.Knows(kOther));
  EXPECT_FALSE(links_.IsUp(kLane));
  links_.Want(InfoOf(kOther));
  (void)links_.OnUp(kControl, {});
  ctx_.TakeActions();
  links_.Send(kOther, Message());
  EXPECT_EQ(Sent(), std::vector<std::uint64_t>{1}) << "numbers begin anew";
}

}  // namespace
}  // namespace ringway::agreement
