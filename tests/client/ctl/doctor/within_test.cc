#include "client/ctl/doctor/within.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>

namespace ringway::ctl {
namespace {

std::atomic<bool> ended = false;

// What a library keeps for a thread.
struct OfThread {
  ~OfThread() { ended = true; }
  int value = 7;
};

TEST(WithinTest, ReturnsWhatTheCallReturnsWhenItsThreadIsOver) {
  const auto call = [] {
    thread_local OfThread kept;
    return kept.value;
  };
  EXPECT_EQ(Within<int>(std::chrono::seconds(60), call), 7);
  EXPECT_TRUE(ended);
}

TEST(WithinTest, CallThatDoesNotComeBackIsLeftBehind) {
  const auto released = std::make_shared<std::promise<void>>();
  const auto call = [released] { return released->get_future().wait(), 7; };
  EXPECT_FALSE(Within<int>(std::chrono::milliseconds(1), call).has_value());
  released->set_value();
}

}  // namespace
}  // namespace ringway::ctl
