#include "proto/tls/utc.h"

#include <gtest/gtest.h>

namespace ringway::tls {
namespace {

TEST(UtcTest, NowIsNow) {
  const auto seconds = SecondsUntil(UtcNow());
  ASSERT_TRUE(seconds.has_value()) << UtcNow();
  EXPECT_LE(*seconds, 0);
  EXPECT_GT(*seconds, -600) << "far beyond what a test takes";
}

TEST(UtcTest, DaysAndSecondsAreOneNumber) {
  const auto one = SecondsUntil("2100-01-01T00:00:00Z");
  const auto next = SecondsUntil("2100-01-02T00:00:01Z");
  ASSERT_TRUE(one && next);
  EXPECT_NEAR(static_cast<double>(*next - *one), 86401, 600);
}

TEST(UtcTest, OtherTextIsNoTime) {
  for (const char* text :
       {"", "now", "2100-01-01", "2100-01-01T00:00:00", "2100-01-01 00:00:00Z", "2100-13-01T00:00:00Z",
        "2100-01-01T00:00:00Z ", "2100-01-01T25:00:00Z", "-100-01-01T00:00:00Z"}) {
    EXPECT_FALSE(SecondsUntil(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace ringway::tls
