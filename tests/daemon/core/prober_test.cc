#include "daemon/core/prober.h"

#include <gtest/gtest.h>

namespace ringway::core {
namespace {

using std::chrono::milliseconds;

class ProberTest : public testing::Test {
 protected:
  std::optional<PeerId> Tick(bool may_send = true, bool is_measured = false) {
    now_ += milliseconds(100);
    return prober_.Tick(now_, may_send, is_measured);
  }

  Prober prober_{PeerId(2)};
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(ProberTest, TurnsGoUpFromTheOwnIdAndAround) {
  for (const std::uint64_t id : {1, 3, 4}) prober_.Want(PeerId(id), 1000);
  for (const std::uint64_t id : {3, 4, 1}) {
    Tick(true, true);
    EXPECT_EQ(prober_.turn(), PeerId(id));
  }
  EXPECT_EQ(Tick(true, true), PeerId(1));
  EXPECT_EQ(prober_.turn(), std::nullopt) << "each has its turn once";
}

TEST_F(ProberTest, ItsBytesAreTheEndAndATickOfGraceFollows) {
  prober_.Want(PeerId(3), 1000);
  Tick();
  EXPECT_EQ(prober_.Take(600), 600u);
  EXPECT_EQ(Tick(), std::nullopt);
  EXPECT_EQ(prober_.Take(600), 400u);
  EXPECT_EQ(prober_.Take(600), 0u);
  EXPECT_EQ(Tick(), std::nullopt) << "what is under way is still counted";
  EXPECT_EQ(Tick(), PeerId(3));
  prober_.Want(PeerId(3), 1000);
  Tick();
  EXPECT_EQ(prober_.turn(), std::nullopt) << "the pair came to stand again";
}

TEST_F(ProberTest, TimeRunsOutOnlyWhileItMaySend) {
  prober_.Want(PeerId(3), 1 << 30);
  Tick();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Tick(false), std::nullopt);
  int ticks = 0;
  while (!Tick()) ++ticks;
  EXPECT_GE(ticks, 28);
  EXPECT_LE(ticks, 31);
}

TEST_F(ProberTest, NobodyIsProbedWhileItMayNotSendAndNobodyWhoIsNotToBe) {
  prober_.Want(PeerId(3), 1000);
  Tick(false);
  EXPECT_EQ(prober_.turn(), std::nullopt);
  prober_.Forget(PeerId(3));
  prober_.Want(PeerId(4), 0);
  Tick();
  EXPECT_EQ(prober_.turn(), std::nullopt);
}

TEST_F(ProberTest, WhoIsForgottenInItsTurnMakesRoom) {
  prober_.Want(PeerId(3), 1000);
  prober_.Want(PeerId(4), 1000);
  Tick();
  prober_.Forget(PeerId(3));
  EXPECT_EQ(Tick(), std::nullopt);
  EXPECT_EQ(prober_.turn(), PeerId(4));
}

}  // namespace
}  // namespace ringway::core
