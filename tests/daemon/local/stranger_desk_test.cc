#include "daemon/local/stranger_desk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ringway::local {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kUser = 1001;

TEST(StrangerDeskTest, ServesInTheOrderOfComingAlsoWhoQueuesInATurn) {
  asio::io_context context;
  StrangerDesk desk(context);
  std::vector<int> served;
  for (const int i : {1, 2}) {
    desk.Queue(kUser, [&, i] {
      served.push_back(i);
      desk.Queue(kUser, [&, i] { served.push_back(10 * i); });
    });
  }
  EXPECT_TRUE(served.empty()) << "never inside Queue";
  context.run();
  EXPECT_EQ(served, (std::vector<int>{1, 2, 10, 20}));
}

TEST(StrangerDeskTest, UsersAndTheListenerTakeTurnsHoweverManyOneHas) {
  asio::io_context context;
  StrangerDesk desk(context);
  std::vector<int> served;
  const auto queue = [&](StrangerDesk::Whose user, int number) {
    desk.Queue(user, [&served, number] { served.push_back(number); });
  };
  for (int i = 0; i < 5; ++i) queue(1001, i);
  queue(1002, 20);
  queue(1002, 21);
  queue(std::nullopt, 30);
  context.run();
  EXPECT_EQ(served, (std::vector<int>{0, 20, 30, 1, 21, 2, 3, 4}));
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
  for (int i = 0; i < 3; ++i) desk.Queue(kUser, turn);
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
  desk.Queue(kUser, [&] {
    const auto begin = Clock::now();
    while (Clock::now() < begin + kTurn) std::this_thread::yield();
    end = Clock::now();
  });
  context.run();
  context.restart();
  desk.Queue(kUser, [&] { EXPECT_GE(Clock::now() - end, 9 * kTurn); });
  context.run();
}

TEST(StrangerDeskTest, ForgetsWhoWaitsWhenItGoes) {
  asio::io_context context;
  bool served = false;
  {
    StrangerDesk desk(context);
    desk.Queue(kUser, [&] { served = true; });
  }
  context.run();
  EXPECT_FALSE(served);
}

}  // namespace
}  // namespace ringway::local
