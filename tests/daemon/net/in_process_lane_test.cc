#include "daemon/net/in_process_lane.h"

#include <utility>

#include "tests/daemon/net/lane_fixture.h"

namespace ringway::net {
namespace {

// Says where payloads lay.
class PlaceSink final : public RecordingLaneSink {
 public:
  Status OnLanePayload(const links::LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) override {
    places.push_back(payload.data());
    return RecordingLaneSink::OnLanePayload(lane, payload, hash);
  }
  std::vector<const std::byte*> places;
};

class InProcessLaneTest : public LaneFixture {
 protected:
  using Kind = RecordingLaneSink::Kind;

  void SetUp() override {
    InProcessLane::Join(here_, there_);
    here_->Start(nullptr, &sink_here_);
    there_->Start(nullptr, &sink_there_);
  }
  void TearDown() override {
    here_->Close();
    there_->Close();
    Settle();
  }
  links::Outbound Segment(bool is_hashed, std::uint64_t attempt = 7) {
    links::Outbound out = Outbound(payload_);
    out.attempt = attempt;
    if (is_hashed) return out;
    auto header = DecodeSegmentHeader(out.header);
    header.value().payload_hash = 0;
    EncodeSegmentHeader(header.value(), out.header);
    return out;
  }

  std::shared_ptr<std::vector<std::byte>> payload_ = std::make_shared<std::vector<std::byte>>(Pattern(3000, 1));
  const std::vector<std::byte> sent_ = *payload_;
  PlaceSink sink_here_;
  PlaceSink sink_there_;
  std::shared_ptr<InProcessLane> here_ = std::make_shared<InProcessLane>(context_, kLabel, kPayloadBytesMax);
  std::shared_ptr<InProcessLane> there_ = std::make_shared<InProcessLane>(context_, kLabel, kPayloadBytesMax);
};

TEST_F(InProcessLaneTest, SegmentWithoutAHashIsReadWhereItLies) {
  sink_there_.kind = Kind::kScratch;
  EXPECT_FALSE(here_->Send(Segment(false)));
  EXPECT_FALSE(here_->idle());
  EXPECT_TRUE(sink_there_.headers.empty()) << "delivered from within Send";
  Settle();
  ASSERT_EQ(sink_there_.payloads.size(), 1U);
  EXPECT_EQ(sink_there_.payloads[0], sent_);
  EXPECT_EQ(sink_there_.places[0], payload_->data());
  EXPECT_TRUE(here_->idle());
  EXPECT_EQ(sink_here_.idle_calls, 1);
  EXPECT_EQ(payload_.use_count(), 1) << "its memory is still held";
}

TEST_F(InProcessLaneTest, SegmentWithATargetIsCopiedThere) {
  for (const bool is_hashed : {false, true}) {
    (void)here_->Send(Segment(is_hashed));
    Settle();
    EXPECT_EQ(*sink_there_.target, sent_);
    EXPECT_EQ(sink_there_.places.back(), sink_there_.target->data());
  }
  EXPECT_TRUE(sink_there_.closed.empty());
}

// Several ranks keep it, and the trainer behind the sender may write there.
TEST_F(InProcessLaneTest, SegmentWithAHashIsReadOnceAndChecked) {
  sink_there_.kind = Kind::kScratch;
  sink_there_.at_payload = [this] { (*payload_)[5] ^= std::byte{1}; };  // too late
  (void)here_->Send(Segment(true));
  Settle();
  ASSERT_EQ(sink_there_.payloads.size(), 1U);
  EXPECT_NE(sink_there_.places[0], payload_->data());
  EXPECT_TRUE(sink_there_.closed.empty());
  links::Outbound out = Segment(true);
  (*payload_)[6] ^= std::byte{1};
  (void)here_->Send(std::move(out));
  Settle();
  EXPECT_EQ(sink_there_.closed.size(), 1U);
  EXPECT_EQ(sink_here_.closed.size(), 1U) << "the other end learns it";
}

TEST_F(InProcessLaneTest, SegmentOfAnAttemptThatIsOverIsSkipped) {
  (void)here_->Send(Segment(false));
  sink_here_.live = false;
  sink_there_.kind = Kind::kDiscard;  // as a peer does with what is of no operation
  Settle();
  ASSERT_EQ(sink_there_.headers.size(), 1U);
  EXPECT_EQ(sink_there_.headers[0].kind, SegmentKind::kProbe);
  EXPECT_EQ(sink_there_.headers[0].payload_bytes, 0U);
  EXPECT_TRUE(sink_there_.payloads.empty());
  EXPECT_TRUE(here_->idle());
}

TEST_F(InProcessLaneTest, BothEndsSendAtOnceAndFromWithinCalls) {
  int left = 10;
  sink_there_.at_payload = [&] {
    if (left-- > 0) (void)there_->Send(Segment(true));
  };
  sink_here_.at_payload = [&] { (void)here_->Send(Segment(true)); };
  (void)here_->Send(Segment(true));
  Settle();
  EXPECT_EQ(sink_there_.payloads.size(), 11U);
  EXPECT_EQ(sink_here_.payloads.size(), 10U);
}

TEST_F(InProcessLaneTest, CloseIsSeenAtTheOtherEndOnce) {
  here_->Close();
  EXPECT_TRUE(sink_there_.closed.empty()) << "called from within Close";
  Settle();
  EXPECT_EQ(sink_there_.closed.size(), 1U);
  EXPECT_TRUE(sink_here_.closed.empty());
  EXPECT_FALSE(there_->idle());
}

TEST_F(InProcessLaneTest, NothingIsReadOfWhomHasClosedItsEnd) {
  (void)here_->Send(Segment(false));
  here_->Close();
  Settle();
  EXPECT_TRUE(sink_there_.headers.empty());
  EXPECT_EQ(payload_.use_count(), 1);
}

TEST_F(InProcessLaneTest, RefusedHeaderClosesBothEnds) {
  sink_there_.refuse = true;
  (void)here_->Send(Segment(false));
  Settle();
  EXPECT_EQ(sink_there_.closed.size(), 1U);
  EXPECT_EQ(sink_here_.closed.size(), 1U);
}

TEST_F(InProcessLaneTest, EndThatRetiresKeepsNoConnection) {
  bool kept = false;
  here_->Retire([&](const std::unique_ptr<Stream>& stream) { kept = stream == nullptr; });
  EXPECT_FALSE(kept) << "called from within Retire";
  Settle();
  EXPECT_TRUE(kept);
  EXPECT_EQ(sink_there_.closed.size(), 1U);
}

}  // namespace
}  // namespace ringway::net
