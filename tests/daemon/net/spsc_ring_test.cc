#include "daemon/net/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>

namespace ringway::net {
namespace {

using Ring = SpscRing<std::shared_ptr<int>, 4>;

std::shared_ptr<int> Number(int value) { return std::make_shared<int>(value); }

TEST(SpscRingTest, ValuesComeOutInOrderOverManyRounds) {
  Ring ring;
  EXPECT_EQ(ring.Front(), nullptr);
  int next = 0;
  for (int i = 0; i < 30; i += 3) {
    for (int j = 0; j < 3; ++j) ASSERT_TRUE(ring.Push(Number(i + j)));
    for (int j = 0; j < 3; ++j) {
      ASSERT_NE(ring.Front(), nullptr);
      EXPECT_EQ(**ring.Front(), next++);
      ring.Pop();
    }
  }
  EXPECT_EQ(ring.Front(), nullptr);
}

TEST(SpscRingTest, FullRingRefusesAndKeepsTheValueOutside) {
  Ring ring;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ring.Push(Number(i)));
  auto fifth = Number(4);
  EXPECT_FALSE(ring.Push(std::move(fifth)));
  ASSERT_NE(fifth, nullptr);
  EXPECT_EQ(**ring.Front(), 0);
  ring.Pop();
  EXPECT_TRUE(ring.Push(std::move(fifth)));
}

TEST(SpscRingTest, PoppedValuesLiveUntilTheirMakerTakesThemBack) {
  Ring ring;
  auto first = Number(1);
  auto second = Number(2);
  const std::weak_ptr<int> one = first;
  const std::weak_ptr<int> two = second;
  ASSERT_TRUE(ring.Push(std::move(first)));
  ASSERT_TRUE(ring.Push(std::move(second)));
  ring.Pop();
  EXPECT_FALSE(one.expired());
  ring.Reclaim();
  EXPECT_TRUE(one.expired());
  EXPECT_FALSE(two.expired());
  ring.Clear();
  EXPECT_TRUE(two.expired());
}

// Under TSan this is what proves the order of the two threads' accesses.
TEST(SpscRingTest, TwoThreadsHandOverEveryValueWhole) {
  struct Value {
    std::uint64_t number = 0;
    std::uint64_t check = 0;
  };
  constexpr std::uint64_t kValues = 200'000;
  SpscRing<Value, 8> ring;
  std::thread pusher([&] {
    for (std::uint64_t i = 1; i <= kValues;) {
      if (ring.Push({.number = i, .check = ~i}))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  for (std::uint64_t i = 1; i <= kValues;) {
    const Value* value = ring.Front();
    if (value == nullptr) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(value->number, i);
    EXPECT_EQ(value->check, ~i);
    ++i;
    ring.Pop();
  }
  pusher.join();
}

}  // namespace
}  // namespace ringway::net
