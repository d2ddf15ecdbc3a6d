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

}  // namespace
}  // namespace ringway::agreement
