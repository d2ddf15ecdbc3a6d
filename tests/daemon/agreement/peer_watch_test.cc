// A Peer whose partner submits nothing.
#include <gtest/gtest.h>

#include <variant>

#include "daemon/agreement/peer.h"
#include "daemon/buffers/trainer_buffers.h"

namespace ringway::agreement {
namespace {

class PeerWatchTest : public testing::Test {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kPartner{2};
  static constexpr Duration kHeartbeat = std::chrono::milliseconds(100);
  static constexpr Duration kDetect = std::chrono::seconds(5);

  PeerWatchTest() : peer_(kMe, "g", {}) {
    control::Candidates candidates;
    candidates.set_peer(kMe.value);
    *candidates.add_others() = Partner();
    peer_.OnCandidates(candidates, now_);
    peer_.OnLinkUp({kPartner, true, {}}, {}, now_);
    peer_.OnLinkUp({kPartner, false, LaneId(0)}, {.lanes = 1, .generation = 1}, now_);
    Install(1);
    Submission submission;
    submission.token = 1;
    submission.descriptor = {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};
    submission.buffers = std::make_shared<buffers::TrainerBuffers>();
    EXPECT_TRUE(peer_.Submit(std::move(submission), now_).ok());
  }

  static control::PeerInfo Partner() {
    control::PeerInfo partner;
    partner.set_peer_id(kPartner.value);
    partner.set_name("partner");
    partner.set_address("127.0.0.1:1");
    return partner;
  }

  void Install(std::uint32_t counter) {
    control::ViewFor view;
    view.set_peer(kMe.value);
    view.mutable_view()->set_epoch(Epoch::Of(1, counter).value);
    view.mutable_view()->mutable_plan()->set_heartbeat_ms(kHeartbeat.count() / 1000);
    view.mutable_view()->mutable_plan()->set_detect_ms(kDetect.count() / 1000);
    view.mutable_view()->mutable_plan()->set_small_bytes_max(1000);
    view.mutable_view()->add_members()->set_peer_id(kMe.value);
    view.mutable_view()->mutable_members(0)->set_address("127.0.0.1:1");
    *view.mutable_view()->add_members() = Partner();
    for (const std::uint32_t rank : {0, 1}) view.mutable_view()->add_ring(rank);
    peer_.OnView(view, now_);
  }

  // Returns how often the log said that an operation waits.
  int Pass(Duration time) {
    int said = 0;
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += std::chrono::milliseconds(50);
      control::PeerMessage beat;  // the partner is alive
      beat.mutable_heartbeat()->set_epoch(peer_.view().epoch.value);
      EXPECT_TRUE(peer_.OnPeerMessage(kPartner, beat, now_).ok());
      peer_.Tick(now_);
      for (const Action& action : peer_.TakeActions()) {
        const auto* note = std::get_if<Note>(&action);
        said += note != nullptr && note->event == "operation_waits" ? 1 : 0;
        const auto* to_peer = std::get_if<ToPeer>(&action);
        readies_ += to_peer != nullptr && to_peer->message.has_ready() ? 1 : 0;
      }
    }
    return said;
  }

  TimePoint now_{std::chrono::seconds(1)};
  Peer peer_;
  int readies_ = 0;
};

TEST_F(PeerWatchTest, StatusShowsAWaitAfterASecondAndTheLogAfterTheDetectionTime) {
  EXPECT_EQ(Pass(std::chrono::milliseconds(900)), 0);
  EXPECT_EQ(peer_.GetStatus().wait.text(), "");
  EXPECT_EQ(Pass(std::chrono::milliseconds(600)), 0);
  EXPECT_EQ(peer_.GetStatus().wait.text(), "0:1 for partner");
  EXPECT_EQ(Pass(std::chrono::seconds(5)), 1);
}

// Ranks whose descriptors differ may exchange no segments.
TEST_F(PeerWatchTest, ASmallOperationThatWaitsForTheDetectionTimeIsSaidToBeReadyOnce) {
  Pass(kDetect - kHeartbeat);
  EXPECT_EQ(readies_, 0);
  Pass(2 * kHeartbeat);
  EXPECT_EQ(readies_, 1);
  Pass(2 * kDetect);
  EXPECT_EQ(readies_, 1);
}

TEST_F(PeerWatchTest, ItIsSaidAgainInTheNextView) {
  Pass(kDetect + kHeartbeat);
  EXPECT_EQ(readies_, 1);
  Install(2);
  Pass(kDetect - kHeartbeat);
  EXPECT_EQ(readies_, 1);
  Pass(2 * kHeartbeat);
  EXPECT_EQ(readies_, 2);
}

}  // namespace
}  // namespace ringway::agreement
