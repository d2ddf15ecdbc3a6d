#include "daemon/net/bounded_post.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ringway::net {
namespace {

TEST(BoundedPostTest, FullQueueRefusesAndLaterTakesAgain) {
  asio::io_context context;
  BoundedPost post(context, 2);
  int runs = 0;
  EXPECT_TRUE(post.TryPost([&] { ++runs; }));
  EXPECT_TRUE(post.TryPost([&] { ++runs; }));
  EXPECT_FALSE(post.TryPost([&] { ++runs; }));
  context.run();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(post.TryPost([&] { ++runs; }));
}

TEST(BoundedPostTest, ValuesOfOneThreadArriveInOrder) {
  asio::io_context context;
  BoundedPost post(context, 100'000);
  std::vector<int> seen;
  std::thread sender([&] {
    for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(post.TryPost([&seen, i] { seen.push_back(i); }));
  });
  while (seen.size() < 10'000) {
    context.restart();
    context.run_for(std::chrono::milliseconds(10));
  }
  sender.join();
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace ringway::net
