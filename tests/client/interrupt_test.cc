// Waits that end for another reason than their own operation: a signal's flag, or the first of several Works.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ringway/ringway.hpp>
#include <thread>

#include "client/src/deadline.h"
#include "tests/client/fake_daemon.h"

namespace ringway {
namespace {

using testing::FakeDaemon;

std::atomic<bool> signal_came = false;

class InterruptTest : public ::testing::Test {
 protected:
  InterruptTest() {
    options_.socket_path = daemon_.socket_path();
    options_.group = "job";
    options_.wait_world = 1;
    options_.interrupted = [this] {
      ++asked_;
      return interrupt_ || signal_came;
    };
    signal_came = false;
  }

  std::unique_ptr<Session> Joined() {
    auto session = Session::Join(options_);
    EXPECT_TRUE(session.ok()) << session.status().text();
    return session.ok() ? std::move(session.value()) : nullptr;
  }

  // Until the daemon has read so many submissions.
  void AwaitSubmits(std::size_t count) {
    EXPECT_TRUE(daemon_.WaitUntil([count](const FakeDaemon::Seen& seen) { return seen.submits.size() == count; }));
  }

  static Result<Work> Submit(Session& session, std::uint8_t* value) {
    return session.AllReduceAsync(value, value, 1, DType::kU8, ReduceOp::kSum);
  }

  FakeDaemon daemon_{{.holds = true}};
  JoinOptions options_;
  std::atomic<bool> interrupt_ = false;
  std::atomic<int> asked_ = 0;
};

TEST_F(InterruptTest, HandlerOfASignalEndsTheWaitAndTheOperationGoesOn) {
  auto session = Joined();
  std::uint8_t value = 1;
  auto work = Submit(*session, &value);
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { signal_came = true; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Result<OpResult> result = OpResult();
  const int asked_before = asked_;
  std::thread waiter([&] { result = work->Wait(); });
  while (asked_ == asked_before) std::this_thread::yield();  // it waits; ThreadSanitizer may drop a signal before
  pthread_kill(waiter.native_handle(), SIGUSR1);
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(result.status().code(), Code::kInterrupted);
  signal_came = false;
  AwaitSubmits(1);
  daemon_.CompleteHeld();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(value, 2);
}

TEST_F(InterruptTest, EachThreadThatWaitsIsAsked) {
  auto session = Joined();
  std::uint8_t values[2] = {1, 1};
  auto first = Submit(*session, &values[0]);
  auto second = Submit(*session, &values[1]);
  Result<OpResult> results[2] = {OpResult(), OpResult()};
  std::thread leader([&] { results[0] = first->Wait(); });
  std::thread follower([&] { results[1] = second->Wait(); });
  interrupt_ = true;
  leader.join();
  follower.join();
  EXPECT_EQ(results[0].status().code(), Code::kInterrupted);
  EXPECT_EQ(results[1].status().code(), Code::kInterrupted);
  EXPECT_EQ(session->UpdateView().status().code(), Code::kInvalidArgument) << "both are in flight still";
}

// Doorbells of others' operations wake it up again and again.
TEST_F(InterruptTest, WaitAmongBusyThreadsIsAsked) {
  auto session = Joined();
  std::uint8_t values[2] = {1, 1};
  auto held = Submit(*session, &values[0]);
  AwaitSubmits(1);
  daemon_.SetHolds(false);
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) (void)session->AllReduce(&values[1], &values[1], 1, DType::kU8, ReduceOp::kSum);
  });
  interrupt_ = true;
  EXPECT_EQ(held->Wait().status().code(), Code::kInterrupted);
  stop = true;
  busy.join();
}

TEST(DeadlineTest, NeverLeavesAnyTimeAsItIs) {
  const internal::Deadline pause = internal::Deadline(kForever).Within(Milliseconds(20));
  EXPECT_FALSE(pause.never());
  EXPECT_LE(pause.PollMilliseconds(), 20);
  EXPECT_GE(pause.PollMilliseconds(), 0);
  EXPECT_EQ(internal::Deadline(Milliseconds(0)).Within(Milliseconds(20)).PollMilliseconds(), 0);
  EXPECT_TRUE(internal::Deadline(kForever).Within(kForever).never());
}

TEST_F(InterruptTest, JoinThatWaitsForOthersEnds) {
  daemon_.SetJoin(Code::kOk, false);
  interrupt_ = true;
  EXPECT_EQ(Session::Join(options_).status().code(), Code::kInterrupted);
}

TEST_F(InterruptTest, UpdateViewIsTakenUpAgain) {
  auto session = Joined();
  interrupt_ = true;
  EXPECT_EQ(session->UpdateView().status().code(), Code::kInterrupted);
  interrupt_ = false;
  AwaitSubmits(1);
  daemon_.CompleteHeld();
  EXPECT_TRUE(session->UpdateView().ok());
  EXPECT_EQ(daemon_.Look().submits.size(), 1u);
}

TEST_F(InterruptTest, SubmissionWhileTheSessionRejoinsEnds) {
  auto session = Joined();
  std::uint8_t value = 1;
  auto work = Submit(*session, &value);
  daemon_.GoAway();
  interrupt_ = true;
  EXPECT_EQ(work->Wait().status().code(), Code::kInterrupted);
  EXPECT_EQ(Submit(*session, &value).status().code(), Code::kInterrupted);
  interrupt_ = false;
  daemon_.ComeBack();
  EXPECT_EQ(work->Wait().status().code(), Code::kRejoined);
}

TEST_F(InterruptTest, WaitAnyNamesTheFirstThatIsDone) {
  auto session = Joined();
  std::uint8_t values[3] = {1, 1, 1};
  auto held = Submit(*session, &values[0]);
  AwaitSubmits(1);
  daemon_.SetHolds(false);
  auto done = Submit(*session, &values[1]);
  auto later = Submit(*session, &values[2]);
  const auto first = Work::WaitAny({&*held, &*done, &*later});
  ASSERT_TRUE(first.ok()) << first.status().text();
  EXPECT_EQ(*first, 1u);
  EXPECT_TRUE(done->Wait().ok());
  EXPECT_EQ(Work::WaitAny({&*held}, Milliseconds(0)).status().code(), Code::kTimeout);
  interrupt_ = true;
  EXPECT_EQ(Work::WaitAny({&*held}).status().code(), Code::kInterrupted);
}

TEST_F(InterruptTest, WaitAnyTellsTheEndOfAMembership) {
  auto session = Joined();
  std::uint8_t values[2] = {1, 1};
  auto one = Submit(*session, &values[0]);
  auto other = Submit(*session, &values[1]);
  daemon_.Die();
  const auto first = Work::WaitAny({&*one, &*other});
  ASSERT_TRUE(first.ok()) << first.status().text();
  EXPECT_EQ(one->Wait().status().code(), Code::kRejoined);
  EXPECT_EQ(*Work::WaitAny({&*other, &*one}), 0u);
}

TEST_F(InterruptTest, WaitAnyRefusesWhatItCannotWaitFor) {
  auto session = Joined();
  FakeDaemon second({.holds = true});
  options_.socket_path = second.socket_path();
  auto another = Joined();
  std::uint8_t values[2] = {1, 1};
  auto one = Submit(*session, &values[0]);
  auto other = Submit(*another, &values[1]);
  Work empty;
  EXPECT_EQ(Work::WaitAny({&*one, &*other}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Work::WaitAny({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Work::WaitAny({&*one, &empty}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Work::WaitAny({nullptr}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringway
