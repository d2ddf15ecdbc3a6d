#include "daemon/net/doorbell.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace ringway::net {
namespace {

class Counting : public Doorbell::Sink {
 public:
  void OnRung() override {
    ++calls;
    if (then) then();
  }
  int calls = 0;
  std::function<void()> then;
};

TEST(DoorbellTest, ManyRingsAreOneCall) {
  asio::io_context context;
  Doorbell bell(context);
  const auto callee = std::make_shared<Counting>();
  for (int i = 0; i < 5; ++i) bell.Ring(callee);
  EXPECT_EQ(callee->calls, 0) << "never from within Ring";
  context.poll();
  EXPECT_EQ(callee->calls, 1);
  bell.Ring(callee);
  context.restart();
  context.poll();
  EXPECT_EQ(callee->calls, 2);
}

TEST(DoorbellTest, CalleesAreCalledInTheOrderOfTheirRings) {
  asio::io_context context;
  Doorbell bell(context);
  std::vector<int> order;
  std::vector<std::shared_ptr<Counting>> callees;
  for (int i = 0; i < 4; ++i) {
    callees.push_back(std::make_shared<Counting>());
    callees.back()->then = [&order, i] { order.push_back(i); };
  }
  for (const int i : {2, 0, 2, 3, 1}) bell.Ring(callees[static_cast<std::size_t>(i)]);
  context.poll();
  EXPECT_EQ(order, (std::vector{2, 0, 3, 1}));
}

TEST(DoorbellTest, CalleeThatRingsWithinItsCallIsCalledAgainLater) {
  asio::io_context context;
  Doorbell bell(context);
  const auto callee = std::make_shared<Counting>();
  callee->then = [&] {
    if (callee->calls < 3) bell.Ring(callee);
  };
  bell.Ring(callee);
  context.poll();
  EXPECT_EQ(callee->calls, 3);
}

TEST(DoorbellTest, HoldsWhoWaitsUntilCalledOrUntilItsOwnEnd) {
  asio::io_context context;
  std::weak_ptr<Counting> called;
  std::weak_ptr<Counting> forgotten;
  {
    Doorbell bell(context);
    auto callee = std::make_shared<Counting>();
    called = callee;
    bell.Ring(std::move(callee));
    EXPECT_FALSE(called.expired());
    context.poll();
    EXPECT_TRUE(called.expired());
    callee = std::make_shared<Counting>();
    forgotten = callee;
    bell.Ring(std::move(callee));
    EXPECT_FALSE(forgotten.expired());
  }
  EXPECT_TRUE(forgotten.expired());
}

// Every write before a ring is seen by a call after it: the last call sees the last value of each ringer.
TEST(DoorbellTest, NoRingOfAnyThreadIsMissed) {
  constexpr int kRings = 50'000;
  class Cell : public Doorbell::Sink {
   public:
    explicit Cell(asio::io_context& context) : context_(context) {}
    void OnRung() override {
      const int before = std::exchange(seen, written.load(std::memory_order_relaxed));
      const bool ends = seen == kRings && before != kRings;  // the call before may have seen the last value, too
      if (ends && --*open == 0) context_.stop();
    }
    std::atomic<int> written = 0;
    int seen = 0;
    int* open = nullptr;

   private:
    asio::io_context& context_;
  };
  asio::io_context context;
  const auto work = asio::make_work_guard(context);
  Doorbell bell(context);
  int open = 3;
  std::vector<std::shared_ptr<Cell>> cells;
  for (int i = 0; i < 3; ++i) {
    cells.push_back(std::make_shared<Cell>(context));
    cells.back()->open = &open;
  }
  std::vector<std::thread> ringers;
  for (const auto& cell : cells) {
    ringers.emplace_back([&bell, cell] {
      for (int i = 1; i <= kRings; ++i) {
        cell->written.store(i, std::memory_order_relaxed);
        bell.Ring(cell);
      }
    });
  }
  context.run_for(std::chrono::seconds(60));
  for (std::thread& ringer : ringers) ringer.join();
  for (const auto& cell : cells) EXPECT_EQ(cell->seen, kRings);
}

}  // namespace
}  // namespace ringway::net
