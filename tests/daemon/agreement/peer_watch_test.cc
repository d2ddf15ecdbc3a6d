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

  PeerWatchTest() : peer_(kMe, "g", {}) {
    control::PeerInfo partner;
    partner.set_peer_id(kPartner.value);
    partner.set_name("partner");
    partner.set_address("127.0.0.1:1");
    control::Candidates candidates;
    candidates.set_peer(kMe.value);
    *candidates.add_others() = partner;
    peer_.OnCandidates(candidates, now_);
    peer_.OnLinkUp({kPartner, true, {}}, {}, now_);
    peer_.OnLinkUp({kPartner, false, LaneId(0)}, {.lanes = 1, .generation = 1}, now_);
    control::ViewFor view;
    view.set_peer(kMe.value);
    view.mutable_view()->set_epoch(Epoch::Of(1, 1).value);
    view.mutable_view()->mutable_plan()->set_heartbeat_ms(100);
    view.mutable_view()->mutable_plan()->set_detect_ms(5000);
    view.mutable_view()->add_members()->set_peer_id(kMe.value);
    view.mutable_view()->mutable_members(0)->set_address("127.0.0.1:1");
    *view.mutable_view()->add_members() = partner;
    for (const std::uint32_t rank : {0, 1}) view.mutable_view()->add_ring(rank);
    peer_.OnView(view, now_);
    Submission submission;
    submission.token = 1;
    submission.descriptor = {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};
    submission.buffers = std::make_shared<buffers::TrainerBuffers>();
    EXPECT_TRUE(peer_.Submit(std::move(submission), now_).ok());
  }

  // Returns how often the log said that an operation waits.
  int Pass(Duration time) {
    int said = 0;
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += std::chrono::milliseconds(50);
      peer_.Tick(now_);
      for (const Action& action : peer_.TakeActions()) {
        const auto* note = std::get_if<Note>(&action);
        said += note != nullptr && note->event == "operation_waits" ? 1 : 0;
      }
    }
    return said;
  }

  TimePoint now_{std::chrono::seconds(1)};
  Peer peer_;
};

TEST_F(PeerWatchTest, StatusShowsAWaitAfterASecondAndTheLogAfterTheDetectionTime) {
  EXPECT_EQ(Pass(std::chrono::milliseconds(900)), 0);
  EXPECT_EQ(peer_.GetStatus().waits, "");
  EXPECT_EQ(Pass(std::chrono::milliseconds(600)), 0);
  EXPECT_EQ(peer_.GetStatus().waits, "0:1 for partner");
  EXPECT_EQ(Pass(std::chrono::seconds(5)), 1);
}

}  // namespace
}  // namespace ringway::agreement
