#include "daemon/flow/warmer.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

constexpr PeerId kA{3};
constexpr PeerId kB{4};
constexpr std::uint64_t kMany = 1 << 30;
constexpr std::uint32_t kFrame = 256 << 10;

class WarmerTest : public testing::Test {
 protected:
  void Know(PeerId other, std::uint64_t bytes = kMany) { warmer_.Know(other, "host", bytes, milliseconds(100)); }
  void Begin(PeerId other, Duration later = {}) { warmer_.Begin(other, later, now_); }
  // One tick in which the path to `other` has delivered at this rate, in bytes per second.
  void Deliver(PeerId other, double rate, std::uint64_t carried = 1000) {
    now_ += milliseconds(50);
    const std::vector<PathSample> samples = {{.other = other,
                                              .traffic = {.delivered = rate / 20},
                                              .backlogged = true,
                                              .round_trip = milliseconds(100),
                                              .carried = carried}};
    warmer_.OnSamples(samples, now_);
  }
  std::uint64_t TakeAll(PeerId other) {
    std::uint64_t bytes = 0;
    while (warmer_.warming() == other) bytes += warmer_.Take(other, kFrame, now_);
    return bytes;
  }

  std::shared_ptr<ProbeBook> book_ = std::make_shared<ProbeBook>();
  Warmer warmer_{book_};
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(WarmerTest, PathIsWarmedUntilItsRateRisesNoMore) {
  Know(kA);
  EXPECT_FALSE(warmer_.is_active()) << "nobody has asked for it";
  Begin(kA);
  for (double rate = 1e6; rate < 50e6; rate *= 1.3) {
    for (int tick = 0; tick < 3; ++tick) Deliver(kA, rate);
    ASSERT_EQ(warmer_.warming(), kA) << rate;
  }
  for (int tick = 0; tick < 12; ++tick) Deliver(kB, 50e6);
  EXPECT_EQ(warmer_.warming(), kA) << "that was another path";
  for (int tick = 0; tick < 12; ++tick) Deliver(kA, 50e6);
  EXPECT_FALSE(warmer_.is_active());
}

TEST_F(WarmerTest, PathIsWarmOnceItsConnectionsHaveCarriedEnough) {
  for (const PeerId other : {kA, kB}) Know(other);
  Deliver(kA, 50e6, Warmer::kBytesMax - 1);
  EXPECT_FALSE(warmer_.has_warm());
  Begin(kA);
  EXPECT_EQ(warmer_.warming(), kA);
  Begin(kB);
  Deliver(kB, 50e6, Warmer::kBytesMax);
  Deliver(kA, 50e6, Warmer::kBytesMax);
  EXPECT_FALSE(warmer_.is_active()) << "operations have warmed both";
  EXPECT_TRUE(warmer_.has_warm());
  Begin(kA);
  EXPECT_FALSE(warmer_.is_active());
  Deliver(kA, 50e6, 1);
  Begin(kA);
  EXPECT_EQ(warmer_.warming(), kA) << "its connections were replaced";
}

TEST_F(WarmerTest, PathWhoseRateRoseNoMoreIsWarmWhateverItHasCarried) {
  Know(kA);
  Begin(kA);
  for (int tick = 0; warmer_.is_active() && tick < 100; ++tick) Deliver(kA, 1e6, 500'000);
  EXPECT_TRUE(warmer_.has_warm());
  Begin(kA);
  EXPECT_FALSE(warmer_.is_active());
  Deliver(kA, 1e6, 499'999);
  Begin(kA);
  EXPECT_TRUE(warmer_.is_active()) << "over other connections";
}

TEST_F(WarmerTest, PathsAreWarmedOneAfterTheOtherWhenTheirTimeHasCome) {
  for (const PeerId other : {kA, kB}) Know(other);
  Begin(kA);
  Begin(kB, Warmer::kLater);
  EXPECT_EQ(TakeAll(kA), Warmer::kBytesMax);
  EXPECT_EQ(warmer_.warming(), std::nullopt) << "it is too early for B";
  EXPECT_TRUE(warmer_.is_active());
  warmer_.Tick(now_ + Warmer::kLater);
  EXPECT_EQ(warmer_.warming(), kB);
  Begin(kA);
  EXPECT_EQ(warmer_.warming(), kB);
  TakeAll(kB);
  EXPECT_EQ(warmer_.warming(), kA) << "at once";
}

TEST_F(WarmerTest, BytesOfAPathAreBoundedAndCountAmongThoseOfItsDay) {
  Know(kA);
  Know(kB, 1000);
  for (const PeerId other : {kA, kB}) Begin(other);
  EXPECT_EQ(TakeAll(kA), Warmer::kBytesMax);
  EXPECT_EQ(TakeAll(kB), 1000U) << "no more than a probe may take";

  const auto book = std::make_shared<ProbeBook>(4 * 700);
  Warmer frugal(book);
  frugal.Know(kA, "host", kMany, milliseconds(100));
  frugal.Begin(kA, {}, now_);
  EXPECT_EQ(frugal.Take(kA, 500, now_), 500U);
  EXPECT_EQ(frugal.Take(kA, 500, now_), 200U);
  EXPECT_EQ(frugal.Take(kA, 500, now_), 0U);
  EXPECT_FALSE(frugal.is_active());
  EXPECT_EQ(book->Allowance("host", now_), 700U) << "half is left to probes";
  EXPECT_EQ(book->WarmAllowance("host", now_ + std::chrono::hours(12)), 350U);
  book->Spend("host", 600, now_);
  EXPECT_EQ(book->WarmAllowance("host", now_), 0U);
  EXPECT_EQ(book->WarmAllowance("host", now_ + std::chrono::hours(24)), 700U);
}

TEST_F(WarmerTest, PeersThatJoinAgainAndAgainAreWarmedWithinABoundThoughProbesHaveNone) {
  std::uint64_t bytes = 0;
  for (int join = 0; join < 20; ++join) {
    warmer_.Forget(kA);
    Know(kA);
    Begin(kA);
    bytes += TakeAll(kA);
  }
  EXPECT_EQ(bytes, static_cast<std::uint64_t>(ProbeBook::kUnlimitedWarmBytes));
}

TEST_F(WarmerTest, TimeOfAPathIsBounded) {
  Know(kA);
  Begin(kA);
  warmer_.Tick(now_ + Warmer::kTimeMax - milliseconds(1));
  EXPECT_EQ(warmer_.warming(), kA);
  warmer_.Begin(kA, {}, now_ + Warmer::kTimeMax - milliseconds(1));
  warmer_.Tick(now_ + Warmer::kTimeMax);
  EXPECT_FALSE(warmer_.is_active()) << "asking again while it is warmed adds nothing";
}

TEST_F(WarmerTest, PathsThatNeedNoneAreNotWarmed) {
  warmer_.Know(PeerId(5), "", kMany, milliseconds(100));  // within this host
  warmer_.Know(PeerId(6), "c", 0, milliseconds(100));     // never probed
  warmer_.Know(PeerId(7), "d", kMany, milliseconds(0));   // nearby
  for (const std::uint64_t other : {5, 6, 7, 8}) Begin(PeerId(other));
  EXPECT_FALSE(warmer_.is_active());
}

TEST_F(WarmerTest, StopAndForgetEndIt) {
  for (const PeerId other : {kA, kB}) Know(other);
  for (const PeerId other : {kA, kB}) Begin(other);
  warmer_.Forget(kA);
  warmer_.Tick(now_);
  EXPECT_EQ(warmer_.warming(), kB);
  warmer_.Stop();
  EXPECT_FALSE(warmer_.is_active());
  for (const PeerId other : {kA, kB}) Begin(other);
  EXPECT_EQ(warmer_.warming(), kB) << "A is not known any more";
}

}  // namespace
}  // namespace ringway::flow
