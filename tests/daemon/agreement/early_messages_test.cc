#include "daemon/agreement/early_messages.h"

#include <gtest/gtest.h>

namespace ringway::agreement {
namespace {

TEST(EarlyMessagesTest, AreDueOnceAfterEachView) {
  EarlyMessages messages;
  messages.Add(PeerId(1), {});
  EXPECT_TRUE(messages.Take().empty());
  messages.OnView();
  EXPECT_EQ(messages.Take().at(PeerId(1)).size(), 1u);
  messages.Add(PeerId(1), {});
  EXPECT_TRUE(messages.Take().empty());
}

TEST(EarlyMessagesTest, OnlySoManyOfAPeerAreKept) {
  EarlyMessages messages;
  for (std::size_t i = 0; i <= EarlyMessages::kMax; ++i) messages.Add(PeerId(1), {});
  messages.Add(PeerId(2), {});
  messages.OnView();
  const EarlyMessages::ByPeer taken = messages.Take();
  EXPECT_EQ(taken.at(PeerId(1)).size(), EarlyMessages::kMax);
  EXPECT_EQ(taken.at(PeerId(2)).size(), 1u);
}

TEST(EarlyMessagesTest, OnlySoManyBytesOfAPeerAreKept) {
  EarlyMessages messages;
  control::PeerMessage large;
  large.mutable_point_to_point()->set_text(std::string(EarlyMessages::kBytesMax / 2, 'x'));
  for (int i = 0; i < 5; ++i) messages.Add(PeerId(1), large);
  messages.Add(PeerId(2), large);
  messages.OnView();
  const EarlyMessages::ByPeer taken = messages.Take();
  EXPECT_EQ(taken.at(PeerId(1)).size(), 1u);
  EXPECT_EQ(taken.at(PeerId(2)).size(), 1u);
  messages.Add(PeerId(1), large);
  messages.Forget(PeerId(1));
  messages.Add(PeerId(1), large);
  messages.OnView();
  EXPECT_EQ(messages.Take().at(PeerId(1)).size(), 1u) << "who is gone leaves no bytes behind";
}

}  // namespace
}  // namespace ringway::agreement
