// When a turn has measured enough.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/daemon/flow/prober_fixture.h"

namespace ringway::flow {
namespace {

TEST_F(ProberTest, ATurnSettlesWhenItsRateRisesNoMoreForTwoWindows) {
  BeginA(1000);
  for (double rate = 1e6; rate < 20e6; rate *= 1.2) {
    for (int tick = 0; tick < 4; ++tick) Deliver(rate, {kA});
    ASSERT_EQ(prober_.turn(), (std::set{kA})) << rate;
  }
  Deliver(20e6, {kB});
  for (int tick = 0; tick < 7; ++tick) Deliver(20e6, {kA});
  EXPECT_EQ(prober_.turn(), (std::set{kA})) << "a rest begins anew, and what others carry does not count";
  for (int tick = 0; tick < 3; ++tick) Deliver(20e6, {kA});
  EXPECT_EQ(prober_.turn(), kNoPeer);
}

TEST_F(ProberTest, OneWindowIsEnoughForAPathAsFastAsTheBest) {
  book_->Learn("elsewhere", 21e6);
  BeginA(1000);
  for (int tick = 0; tick < 6; ++tick) Deliver(15e6, {kA});
  for (int tick = 0; tick < 2; ++tick) Deliver(16e6, {kA});
  EXPECT_EQ(prober_.turn(), (std::set{kA})) << "a plan would avoid it";
  Deliver(0, {});
  for (int tick = 0; tick < 7; ++tick) Deliver(19e6, {kA});
  EXPECT_EQ(prober_.turn(), kNoPeer);
}

TEST_F(ProberTest, ATurnOfSeveralSettlesByTheirSumWhileAllOfThemSend) {
  for (const PeerId other : {kA, kB}) {
    Want(other, 1000);
    book_->At("host" + std::to_string(other.value)).OnProbed(now_);
    book_->Learn("host" + std::to_string(other.value), 1e6);
  }
  Tick();
  Tick();
  On(kA, Step::kGrant);
  On(kB, Step::kGrant);
  ASSERT_EQ(prober_.turn(), (std::set{kA, kB}));
  for (int tick = 0; tick < 20; ++tick) Deliver(10e6, {kA});
  EXPECT_EQ(prober_.turn(), (std::set{kA, kB})) << "B is not sent to";
  for (int tick = 0; tick < 10; ++tick) Deliver(10e6, {kA, kB});
  EXPECT_EQ(prober_.turn(), kNoPeer);
}

}  // namespace
}  // namespace ringway::flow
