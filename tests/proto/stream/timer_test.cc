#include "proto/stream/timer.h"

#include <gtest/gtest.h>

#include <asio/post.hpp>
#include <memory>
#include <optional>
#include <string>

#include "tests/proto/stream/simulated_clock.h"

namespace ringway::net {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

class TimerTest : public testing::Test {
 protected:
  // Writes down when it is called.
  auto Note(const std::string& name) {
    return [this, name] { called_ += name + "@" + SecondsText(clock_.Now() - start_) + " "; };
  }
  std::string RunUntil(Duration time) {
    do {
      loop_.restart();
      loop_.poll();
    } while (clock_.Step(start_ + time));
    return std::exchange(called_, {});
  }

  asio::io_context loop_{1};
  SimulatedClock& clock_ = SimulatedClock::Make(loop_);
  const TimePoint start_ = clock_.Now();
  std::string called_;
};

TEST_F(TimerTest, WaitsEndInTheOrderOfTheirTimes) {
  Timer a(loop_), b(loop_), c(loop_);
  a.After(3 * kSecond, Note("a"));
  b.After(kSecond, Note("b"));
  c.At(start_ + kSecond, Note("c"));
  EXPECT_EQ(RunUntil(2 * kSecond), "b@1.0 s c@1.0 s ");
  EXPECT_EQ(RunUntil(9 * kSecond), "a@3.0 s ");
  EXPECT_EQ(clock_.Now(), start_ + 9 * kSecond);
}

TEST_F(TimerTest, NewWaitReplacesTheOldOne) {
  Timer timer(loop_);
  timer.After(kSecond, Note("old"));
  timer.After(2 * kSecond, Note("new"));
  EXPECT_EQ(RunUntil(9 * kSecond), "new@2.0 s ");
}

TEST_F(TimerTest, WaitThatIsOverAlreadyEndsAtOnce) {
  Timer timer(loop_);
  timer.At(TimePoint(), Note("over"));
  EXPECT_EQ(RunUntil({}), "over@0.0 s ");
}

TEST_F(TimerTest, WhatIsDueIsNotCalledAfterACancelOrTheTimersEnd) {
  Timer first(loop_), cancelled(loop_), replaced(loop_);
  std::optional<Timer> destroyed(loop_);
  first.After(kSecond, [&] {
    cancelled.Cancel();
    replaced.After(kSecond, Note("new"));
    destroyed.reset();
  });
  cancelled.After(kSecond, Note("cancelled"));
  replaced.After(kSecond, Note("replaced"));
  destroyed->After(kSecond, Note("destroyed"));
  while (clock_.Step(start_ + kSecond)) continue;  // all are due before the loop hears of the first
  EXPECT_EQ(RunUntil(9 * kSecond), "new@2.0 s ");
}

TEST_F(TimerTest, OwnerMayEndItsTimerInTheCall) {
  auto owner = std::make_unique<Timer>(loop_);
  owner->After(kSecond, [&] { owner.reset(); });
  RunUntil(kSecond);
  EXPECT_EQ(owner, nullptr);
}

// Whoever has its lifetime from its wait, as a dial has, is not destroyed within Cancel.
TEST_F(TimerTest, WhatWasToBeCalledLivesUntilTheLoopsNextTurn) {
  Timer timer(loop_);
  auto kept = std::make_shared<int>();
  const std::weak_ptr<int> watched = kept;
  timer.After(kSecond, [kept = std::move(kept)] {});
  timer.Cancel();
  EXPECT_FALSE(watched.expired());
  RunUntil({});
  EXPECT_TRUE(watched.expired());
}

TEST(RealTimerTest, LoopWithoutAnotherClockHasTheMachines) {
  asio::io_context loop{1};
  Timer timer(loop);
  const TimePoint begin = MonotonicNow();
  TimePoint end{};
  timer.After(std::chrono::milliseconds(1), [&] { end = Clock::Of(loop).Now(); });
  loop.run();
  EXPECT_GE(end - begin, std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace ringway::net
