#include "proto/clock.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

using std::chrono::milliseconds;

TEST(AttendedClock, PassesWithTheRealOneWhileItIsLookedAt) {
  AttendedClock clock(milliseconds(60));
  TimePoint real{milliseconds(5000)};
  EXPECT_EQ(clock.Now(real), real);
  for (int i = 0; i < 100; ++i) {
    real += milliseconds(i % 60);
    EXPECT_EQ(clock.Now(real), real);
  }
}

TEST(AttendedClock, GapCountsAsItsMaximum) {
  AttendedClock clock(milliseconds(60));
  const TimePoint start{milliseconds(5000)};
  (void)clock.Now(start);
  EXPECT_EQ(clock.Now(start + milliseconds(9000)), start + milliseconds(60));
  EXPECT_EQ(clock.Now(start + milliseconds(9010)), start + milliseconds(70));
}

TEST(SecondsTextTest, HasTenths) {
  EXPECT_EQ(SecondsText({}), "0.0 s");
  EXPECT_EQ(SecondsText(std::chrono::milliseconds(1299)), "1.2 s");
  EXPECT_EQ(SecondsText(std::chrono::seconds(75)), "75.0 s");
}

}  // namespace
}  // namespace ringway
