#include "daemon/flow/traffic.h"

#include <gtest/gtest.h>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLength = milliseconds(200);

class BusyWindowTest : public testing::Test {
 protected:
  // Ticks of 100 ms with 1000 bytes each; returns the first window that is full.
  std::optional<BusyWindow::Totals> Run(int ticks, Duration lead = {}, bool held = false) {
    for (int i = 0; i < ticks; ++i) {
      now_ += milliseconds(100);
      if (auto full = window_.Extend(now_, {.delivered = 1000, .held = held}, kLength, lead)) return full;
    }
    return std::nullopt;
  }

  BusyWindow window_;
  TimePoint now_{seconds(10)};
};

TEST_F(BusyWindowTest, FirstTickOnlyStartsAndTheNextWindowFollowsAtOnce) {
  EXPECT_FALSE(Run(2));
  const auto full = Run(1);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->sum.delivered, 2000);
  EXPECT_EQ(full->PerSecond(full->sum.delivered), 10'000);
  EXPECT_FALSE(Run(1));
  EXPECT_TRUE(Run(1));
}

TEST_F(BusyWindowTest, TicksOfTheLeadDoNotCount) {
  EXPECT_FALSE(Run(5, milliseconds(300)));
  const auto full = Run(1, milliseconds(300));
  ASSERT_TRUE(full);
  EXPECT_EQ(full->ticks, 2);
}

TEST_F(BusyWindowTest, PausedOneContinuesAfterAnotherLeadAndABrokenOneStartsAnew) {
  EXPECT_FALSE(Run(2));
  window_.Pause();
  now_ += seconds(5);
  EXPECT_FALSE(Run(1));
  const auto full = Run(1);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->lasted, kLength);
  EXPECT_FALSE(Run(1));
  window_.Break();
  EXPECT_FALSE(window_.running());
  EXPECT_FALSE(Run(2)) << "one to start, and half a window";
}

TEST_F(BusyWindowTest, IsHeldIfMostOfItsTicksWere) {
  EXPECT_FALSE(Run(2, {}, true));
  EXPECT_FALSE(Run(1, {}, false)->held()) << "half of them";
  EXPECT_FALSE(Run(1, {}, true));
  EXPECT_TRUE(Run(1, {}, true)->held());
}

}  // namespace
}  // namespace ringway::flow
