#include "daemon/agreement/messages.h"

#include <gtest/gtest.h>

#include "daemon/agreement/peer.h"

namespace ringway::agreement {
namespace {

using Field = void (control::Ready::*)(std::uint32_t);

TEST(MessagesTest, ReadyDescribesAnOperation) {
  control::Ready ready;
  ready.set_kind(static_cast<std::uint32_t>(OpKind::kAllReduce));
  ready.set_dtype(static_cast<std::uint32_t>(DType::kF32));
  ready.set_op(static_cast<std::uint32_t>(ReduceOp::kMax));
  ready.set_codec(static_cast<std::uint32_t>(Codec::kNone));
  ready.set_algorithm(static_cast<std::uint32_t>(Algorithm::kDirect));
  ready.set_count(7);
  const Result<Descriptor> descriptor = DescriptorFrom(ready);
  ASSERT_TRUE(descriptor.ok());
  const Descriptor same{OpKind::kAllReduce, DType::kF32, ReduceOp::kMax, Codec::kNone, Algorithm::kDirect, 7};
  EXPECT_EQ(descriptor.value(), same);
}

TEST(MessagesTest, NumberThatFitsNoHeaderIsNoDescriptor) {
  for (const Field set : {&control::Ready::set_kind, &control::Ready::set_dtype, &control::Ready::set_op,
                          &control::Ready::set_codec, &control::Ready::set_algorithm}) {
    control::Ready ready;
    (ready.*set)(256);
    EXPECT_FALSE(DescriptorFrom(ready).ok());
  }
}

TEST(MessagesTest, NumberThatIsNotKnownDiffersFromAllThatAre) {
  control::Ready ready;
  ready.set_codec(255);
  const Result<Descriptor> descriptor = DescriptorFrom(ready);
  ASSERT_TRUE(descriptor.ok());
  EXPECT_NE(descriptor.value().codec, Codec::kNone);
}

// Such a READY is not taken for one with codec 0, which would agree with what was submitted here.
TEST(MessagesTest, PeerClosesTheLinkOfAReadyThatDescribesNothing) {
  constexpr PeerId kOther{2};
  Peer peer(PeerId(1), "g");
  control::Candidates candidates;
  candidates.add_others()->set_peer_id(kOther.value);
  peer.OnCandidates(candidates, {});
  control::PeerMessage message;
  message.set_number(1);
  message.mutable_ready()->set_codec(256);
  EXPECT_EQ(peer.OnPeerMessage(kOther, message, {}).code(), Code::kProtocol);
  message.set_number(2);
  message.mutable_ready()->set_codec(255);
  EXPECT_TRUE(peer.OnPeerMessage(kOther, message, {}).ok()) << "the message before it counts as taken";
}

}  // namespace
}  // namespace ringway::agreement
