#include "daemon/local/stranger_desk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ringway::local {
namespace {

using Clock = std::chrono::steady_clock;

TEST(StrangerDeskTest, ServesInTheOrderOfComingAlsoWhoQueuesInATurn) {
  asio::io_context context;
  StrangerDesk desk(context);
  std::vector<int> served;
  for (const int i : {1, 2}) {
    desk.Queue([&, i] {
      served.push_back(i);
      desk.Queue([&, i] { served.push_back(10 * i); });
    });
  }
  EXPECT_TRUE(served.empty()) << "never inside Queue";
  context.run();
  EXPECT_EQ(served, (std::vector<int>{1, 2, 10, 20}));
}

TEST(StrangerDeskTest, RestsNineTimesAsLongAsItServed) {
  constexpr auto kTurn = std::chrono::milliseconds(2);
  asio::io_context context;
  StrangerDesk desk(context);
  std::vector<Clock::time_point> begins;
  const auto turn = [&] {
    begins.push_back(Clock::now());
    while (Clock::now() < begins.back() + kTurn) std::this_thread::yield();
  };
  for (int i = 0; i < 3; ++i) desk.Queue(turn);
  context.run();
  ASSERT_EQ(begins.size(), 3U);
  for (const std::size_t i : {1, 2}) EXPECT_GE(begins[i] - begins[i - 1], 10 * kTurn);
}

// Also after everybody has gone: who comes at once waits for the rest of the turn before.
TEST(StrangerDeskTest, RestsBeforeTheNextThatComes) {
  asio::io_context context;
  StrangerDesk desk(context);
  Clock::time_point end;
  constexpr auto kTurn = std::chrono::milliseconds(2);
  desk.Queue([&] {
    const auto begin = Clock::now();
    while (Clock::now() < begin + kTurn) std::this_thread::yield();
    end = Clock::now();
  });
  context.run();
  context.restart();
  desk.Queue([&] { EXPECT_GE(Clock::now() - end, 9 * kTurn); });
  context.run();
}

TEST(StrangerDeskTest, ForgetsWhoWaitsWhenItGoes) {
  asio::io_context context;
  bool served = false;
  {
    StrangerDesk desk(context);
    desk.Queue([&] { served = true; });
  }
  context.run();
  EXPECT_FALSE(served);
}

}  // namespace
}  // namespace ringway::local
