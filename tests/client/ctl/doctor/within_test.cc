#include "client/ctl/doctor/within.h"

#include <gtest/gtest.h>
#include <pthread.h>

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
  const auto call = []() -> Result<int> {
    thread_local OfThread kept;
    return kept.value;
  };
  EXPECT_EQ(Within<int>(std::chrono::seconds(60), "late", call)->value(), 7);
  EXPECT_TRUE(ended);
  const auto fails = []() -> Result<int> { return Status(Code::kIo, "no"); };
  EXPECT_EQ(Within<int>(std::chrono::seconds(60), "late", fails)->status().text(), "no");
}

TEST(WithinTest, CallThatDoesNotComeBackIsLeftBehind) {
  const auto released = std::make_shared<std::promise<void>>();
  const auto call = [released]() -> Result<int> { return released->get_future().wait(), 7; };
  const Status status = Within<int>(std::chrono::milliseconds(1), "late", call)->status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.text(), "late");
  released->set_value();
}

TEST(WithinTest, ThreadThatCannotStartHasNoResult) {
  pthread_attr_t usual;
  pthread_attr_t huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);  // more than there are addresses
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const auto call = []() -> Result<int> { return 7; };
  const Awaited<int> result = Within<int>(std::chrono::seconds(60), "late", call);
  EXPECT_EQ(::pthread_setattr_default_np(&usual), 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&usual);
  EXPECT_FALSE(result.has_value());
}

}  // namespace
}  // namespace ringway::ctl
