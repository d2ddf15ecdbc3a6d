// What a member offers may be anything: the first rank takes part in no operation that it could not have submitted. Nor
// does a rank take from the first one that its input is in, if it has offered none.
#include "daemon/agreement/agreed_inputs.h"

#include "daemon/agreement/messages.h"
#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

class AgreedInputsTest : public DuoTest {
 protected:
  static Descriptor Offered() {
    return {.kind = OpKind::kAllReduce, .dtype = DType::kF32, .count = 100, .quorum = Quorum::Ranks(1).code};
  }
  // The second rank offers an input to the first one.
  void Offer(const Descriptor& descriptor, std::uint64_t seq) {
    control::PeerMessage message =
        OfferMessage(Epoch::Of(1, 1), {ChannelId(0), seq}, {.descriptor = descriptor, .weight = 1, .grace = {}});
    message.set_number(nodes_[1].said + 1);
    ASSERT_TRUE(Node(0).OnPeerMessage(IdOf(1), message, now_).ok());
    nodes_[1].said += 1;
    now_ += std::chrono::milliseconds(1);
    Node(0).Tick(now_);
    for (const Action& action : Node(0).TakeActions()) {
      if (!std::holds_alternative<ToPeer>(action)) CarryOut(0, action);  // the other peer has said none of this
    }
  }
};

TEST_F(AgreedInputsTest, OfferOfASubmittableOperationIsTaken) {
  Offer(Offered(), 1);
  EXPECT_FALSE(Said(0, "offer_refused"));
  EXPECT_TRUE(Node(0).HasWork() || Next(0, 0).has_value());
}

TEST_F(AgreedInputsTest, OfferThatNobodyCouldSubmitIsRefused) {
  Descriptor overflows = Offered();
  overflows.count = std::uint64_t{1} << 62;
  Descriptor unknown = Offered();
  unknown.dtype = static_cast<DType>(200);
  Descriptor rooted = Offered();
  rooted.root = 3;
  Descriptor says_which = Offered();
  says_which.quorum = 0;
  says_which.layout = IdOf(1).value;
  for (const Descriptor& descriptor : {overflows, unknown, rooted, says_which}) {
    nodes_[0].events.clear();
    Offer(descriptor, 1);
    EXPECT_TRUE(Said(0, "offer_refused"));
  }
}

TEST_F(AgreedInputsTest, OfferOfAnOperationThatNobodyCanBeAtIsRefused) {
  for (const std::uint64_t seq : {std::uint64_t{0}, std::uint64_t{3000}}) {
    nodes_[0].events.clear();
    Offer(Offered(), seq);
    EXPECT_TRUE(Said(0, "offer_refused")) << seq;
    EXPECT_FALSE(nodes_[0].ended.has_value()) << "it stays a member";
  }
}

TEST_F(AgreedInputsTest, OnlyTheInputsThatTheDescriptorIsWithoutAreAbsent) {
  Descriptor without = Offered();
  without.quorum = 0;
  without.layout = IdOf(1).value;
  Descriptor largest = without;
  largest.op = ReduceOp::kMax;
  Descriptor without_all = without;
  without_all.layout = IdOf(0).value;
  std::uint64_t number = nodes_[0].said;
  const auto takes = [&](const Descriptor& descriptor, std::uint64_t absent) {
    nodes_[1].events.clear();
    control::PeerMessage message =
        InputsMessage(Epoch::Of(1, 1), {.name = {ChannelId(0), 1}, .descriptor = descriptor, .inputs = {absent, {}}});
    message.set_number(++number);
    EXPECT_TRUE(Node(1).OnPeerMessage(IdOf(0), message, now_).ok());
    Drain();
    return !Said(1, "inputs_refused");
  };
  EXPECT_FALSE(takes(without, 0b00));
  EXPECT_FALSE(takes(without, 0b01));
  EXPECT_FALSE(takes(largest, 0b10));
  EXPECT_FALSE(takes(without_all, 0b10));
  EXPECT_FALSE(Node(1).HasWork() || Next(1, 0).has_value());
  EXPECT_TRUE(takes(without, 0b10));
  EXPECT_FALSE(nodes_[1].ended.has_value());
}

TEST_F(AgreedInputsTest, InputThatThisRankHasNotOfferedIsNotIn) {
  const auto decided = [](std::uint64_t absent) {
    return InputsMessage(Epoch::Of(1, 1), {.name = {ChannelId(0), 1}, .descriptor = Offered(), .inputs = {absent, {}}});
  };
  control::PeerMessage lie = decided(0);
  lie.set_number(nodes_[0].said + 1);
  ASSERT_TRUE(Node(1).OnPeerMessage(IdOf(0), lie, now_).ok());
  Drain();
  EXPECT_TRUE(Said(1, "inputs_refused"));
  EXPECT_FALSE(Node(1).HasWork() || Next(1, 0).has_value());

  nodes_[1].events.clear();
  control::PeerMessage truth = decided(0b10);
  truth.set_number(nodes_[0].said + 2);
  ASSERT_TRUE(Node(1).OnPeerMessage(IdOf(0), truth, now_).ok());
  EXPECT_FALSE(Said(1, "inputs_refused"));
}

}  // namespace
}  // namespace ringway::agreement
