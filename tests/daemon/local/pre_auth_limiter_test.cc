#include "daemon/local/pre_auth_limiter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ringway::local {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kUser = 1001;

TEST(PreAuthLimiterTest, ServesInTheOrderOfComingAlsoWhoQueuesInATurn) {
  asio::io_context context;
  PreAuthLimiter limiter(context);
  std::vector<int> served;
  for (const int i : {1, 2}) {
    limiter.Queue(kUser, [&, i] {
      served.push_back(i);
      limiter.Queue(kUser, [&, i] { served.push_back(10 * i); });
    });
  }
  EXPECT_TRUE(served.empty()) << "never inside Queue";
  context.run();
  EXPECT_EQ(served, (std::vector<int>{1, 2, 10, 20}));
}

TEST(PreAuthLimiterTest, UsersAndTheListenerTakeTurnsHoweverManyOneHas) {
  asio::io_context context;
  PreAuthLimiter limiter(context);
  std::vector<int> served;
  const auto queue = [&](PreAuthLimiter::Whose user, int number) {
    limiter.Queue(user, [&served, number] { served.push_back(number); });
  };
  for (int i = 0; i < 5; ++i) queue(1001, i);
  queue(1002, 20);
  queue(1002, 21);
  queue(std::nullopt, 30);
  context.run();
  EXPECT_EQ(served, (std::vector<int>{0, 20, 30, 1, 21, 2, 3, 4}));
}

TEST(PreAuthLimiterTest, RestsNineTimesAsLongAsItServed) {
  constexpr auto kTurn = std::chrono::milliseconds(2);
  asio::io_context context;
  PreAuthLimiter limiter(context);
  std::vector<Clock::time_point> begins;
  const auto turn = [&] {
    begins.push_back(Clock::now());
    while (Clock::now() < begins.back() + kTurn) std::this_thread::yield();
  };
  for (int i = 0; i < 3; ++i) limiter.Queue(kUser, turn);
  context.run();
  ASSERT_EQ(begins.size(), 3U);
  for (const std::size_t i : {1, 2}) EXPECT_GE(begins[i] - begins[i - 1], 10 * kTurn);
}

// It rests even after everybody has gone: a newcomer waits for the rest of the previous turn.
TEST(PreAuthLimiterTest, RestsBeforeTheNextThatComes) {
  asio::io_context context;
  PreAuthLimiter limiter(context);
  Clock::time_point end;
  constexpr auto kTurn = std::chrono::milliseconds(2);
  limiter.Queue(kUser, [&] {
    const auto begin = Clock::now();
    while (Clock::now() < begin + kTurn) std::this_thread::yield();
    end = Clock::now();
  });
  context.run();
  context.restart();
  limiter.Queue(kUser, [&] { EXPECT_GE(Clock::now() - end, 9 * kTurn); });
  context.run();
}

TEST(PreAuthLimiterTest, ForgetsWhoWaitsWhenItGoes) {
  asio::io_context context;
  bool served = false;
  {
    PreAuthLimiter limiter(context);
    limiter.Queue(kUser, [&] { served = true; });
  }
  context.run();
  EXPECT_FALSE(served);
}

}  // namespace
}  // namespace ringway::local
