#include "daemon/runtime/live_rates.h"

#include <gtest/gtest.h>

namespace ringway::daemon {
namespace {

using std::chrono::milliseconds;

constexpr PeerId kA{1}, kB{2};

class LiveRatesTest : public testing::Test {
 protected:
  TimePoint now_{std::chrono::seconds(100)};
  LiveRates rates_;
};

TEST_F(LiveRatesTest, RatesAreThoseOfTheWindowThatIsOver) {
  rates_.Look(now_, {{kA, {1'000'000}}});
  EXPECT_EQ(rates_.bytes_per_second(kA), 0U) << "what it had sent before counts for no window";
  for (int i = 0; i < 6; ++i) rates_.OnOperation(milliseconds(10));
  EXPECT_FALSE(rates_.IsDue(now_ + LiveRates::kWindow - milliseconds(1)));
  EXPECT_TRUE(rates_.IsDue(now_ + LiveRates::kWindow));
  now_ += 2 * LiveRates::kWindow;  // a look that is late divides by the time that has passed
  rates_.Look(now_, {{kA, {1'000'000 + 4'000}}, {kB, {8'000}}});
  EXPECT_EQ(rates_.bytes_per_second(kA), 1'000U);
  EXPECT_EQ(rates_.bytes_per_second(kB), 2'000U);
  EXPECT_DOUBLE_EQ(rates_.operations_per_second(), 1.5);
  now_ += LiveRates::kWindow;
  rates_.Look(now_, {{kA, {1'000'000 + 4'000}}});
  EXPECT_EQ(rates_.bytes_per_second(kA), 0U);
  EXPECT_EQ(rates_.bytes_per_second(kB), 0U) << "its pair has ended";
  EXPECT_DOUBLE_EQ(rates_.operations_per_second(), 0);
}

TEST_F(LiveRatesTest, PairThatBeginsAnewCountsFromZero) {
  rates_.Look(now_, {{kA, {5'000}}});
  now_ += LiveRates::kWindow;
  rates_.Look(now_, {{kA, {1'000}}});
  EXPECT_EQ(rates_.bytes_per_second(kA), 0U);
}

TEST_F(LiveRatesTest, TimeIsTheMeanOfTheNewestOperations) {
  EXPECT_EQ(rates_.operation(), Duration());
  for (std::size_t i = 0; i < 5; ++i) rates_.OnOperation(milliseconds(1000));
  for (std::size_t i = 0; i < LiveRates::kNewest; ++i) rates_.OnOperation(milliseconds(i < 4 ? 10 : 30));
  EXPECT_EQ(rates_.operation(), Duration(milliseconds(20)));
}

TEST_F(LiveRatesTest, ReportIsBounded) {
  LiveRates::Paths sent;
  rates_.Look(now_, sent);
  for (std::uint64_t i = 1; i <= 2 * LiveRates::kPathsMax; ++i)
    sent[PeerId(i)] = {.bytes = 2'000 * i, .resent_bytes = 20 * i};
  rates_.OnOperation(milliseconds(7));
  rates_.Look(now_ + LiveRates::kWindow, sent);
  control::PeerLive live;
  rates_.WriteTo(live);
  ASSERT_EQ(live.paths_size(), LiveRates::kPathsMax);
  EXPECT_EQ(live.paths(2).other(), 3U);
  EXPECT_EQ(live.paths(2).bytes_per_second(), 3'000U);
  EXPECT_EQ(live.paths(2).bytes(), 6'000U);
  EXPECT_EQ(live.paths(2).resent_per_second(), 30U);
  EXPECT_EQ(live.operations_milli(), 500U);
  EXPECT_EQ(live.operation_us(), 7'000U);
}

}  // namespace
}  // namespace ringway::daemon
