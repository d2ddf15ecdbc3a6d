// A session whose daemon goes away: it finds the next one, joins again, and reports that to its trainer once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <ringway/ringway.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/fake_daemon.h"

namespace ringway {
namespace {

using std::chrono::seconds;
using testing::FakeDaemon;

class RejoinTest : public ::testing::Test {
 protected:
  void SetUp() override { Join(seconds(60)); }

  void Join(Milliseconds reconnect) {
    JoinOptions options;
    options.socket_path = daemon_.socket_path();
    options.group = "job";
    options.wait_world = 1;
    options.timeout = seconds(60);
    options.reconnect = reconnect;
    options.rejoin_when_evicted = rejoin_when_evicted_;
    session_.reset();
    auto session = Session::Join(options);
    ASSERT_TRUE(session.ok()) << session.status().text();
    session_ = std::move(session.value());
  }

  Result<OpResult> Reduce(void* memory, std::size_t bytes) {
    return session_->AllReduce(memory, memory, bytes, DType::kU8, ReduceOp::kSum);
  }
  Code ReduceCode() {
    std::uint8_t byte = 0;
    return Reduce(&byte, 1).status().code();
  }

  // An operation that the daemon has and does not complete.
  Work Hold(void* memory, std::size_t bytes) {
    daemon_.SetHolds(true);
    const std::size_t before = daemon_.Look().submits.size();
    auto work = session_->AllReduceAsync(memory, memory, bytes, DType::kU8, ReduceOp::kSum);
    EXPECT_TRUE(work.ok()) << work.status().text();
    EXPECT_TRUE(daemon_.WaitUntil([&](const FakeDaemon::Seen& seen) { return seen.submits.size() > before; }));
    daemon_.SetHolds(false);
    return std::move(work.value());
  }

  bool WaitForJoins(std::uint32_t joins) {
    return daemon_.WaitUntil([&](const FakeDaemon::Seen& seen) { return seen.joins >= joins; });
  }

  FakeDaemon daemon_;
  bool rejoin_when_evicted_ = true;
  std::unique_ptr<Session> session_;
  std::uint8_t byte_ = 1;
};

// It may still write into result regions.
TEST_F(RejoinTest, DaemonThatDroppedTheSessionIsNotJoinedAgain) {
  Join(Milliseconds(200));
  daemon_.Drop();
  EXPECT_EQ(ReduceCode(), Code::kDaemonLost);
  EXPECT_EQ(daemon_.Look().joins, 2u) << "those of this test";
}

TEST_F(RejoinTest, OperationInFlightGivesRejoinedWhenTheDaemonIsBack) {
  Work work = Hold(&byte_, 1);
  daemon_.GoAway();
  EXPECT_EQ(work.Wait(Milliseconds(1)).status().code(), Code::kTimeout);
  EXPECT_FALSE(work.Test());
  daemon_.SetWorld(9, 2, 4);
  daemon_.ComeBack();
  const auto outcome = work.Wait();
  EXPECT_EQ(outcome.status().code(), Code::kRejoined);
  EXPECT_EQ(outcome.status().text().find("start ringwayd again"), std::string::npos) << outcome.status().text();
  EXPECT_EQ(byte_, 1);
  EXPECT_EQ(work.Wait().status().code(), Code::kRejoined);
  EXPECT_EQ(session_->peer_id(), 78u);
  EXPECT_EQ(session_->rank(), 2u);
  EXPECT_EQ(session_->world_size(), 4u);
  EXPECT_EQ(session_->epoch(), 9u);
  EXPECT_EQ(ReduceCode(), Code::kOk) << "it has been reported";
}

TEST_F(RejoinTest, TestTurnsTrueWhenTheSessionHasRejoined) {
  Work work = Hold(&byte_, 1);
  daemon_.Die();
  while (!work.Test()) std::this_thread::yield();
  EXPECT_EQ(work.Wait(Milliseconds(0)).status().code(), Code::kRejoined);
}

TEST_F(RejoinTest, SubmissionIsHeldAndThenGivesRejoinedOnce) {
  daemon_.GoAway();
  auto held = std::async(std::launch::async, [this] { return ReduceCode(); });
  EXPECT_EQ(session_->UpdateView(Milliseconds(1)).status().code(), Code::kTimeout);
  EXPECT_NE(held.wait_for(Milliseconds(0)), std::future_status::ready);
  daemon_.ComeBack();
  EXPECT_EQ(held.get(), Code::kRejoined);
  EXPECT_TRUE(daemon_.Look().submits.empty());
  EXPECT_EQ(ReduceCode(), Code::kOk);
}

TEST_F(RejoinTest, SubmissionWaitsForItsTimeoutOnly) {
  daemon_.GoAway();
  const auto submit = [this](Milliseconds timeout) {
    return session_->AllReduceAsync(&byte_, &byte_, 1, DType::kU8, ReduceOp::kSum, {.submit_timeout = timeout})
        .status()
        .code();
  };
  EXPECT_EQ(submit(Milliseconds(0)), Code::kTimeout) << "also the one that finds the daemon gone";
  EXPECT_EQ(submit(Milliseconds(1)), Code::kTimeout);
  daemon_.ComeBack();
  EXPECT_EQ(submit(kForever), Code::kRejoined);
  EXPECT_TRUE(daemon_.Look().submits.empty()) << "nothing of what timed out was submitted";
  EXPECT_EQ(ReduceCode(), Code::kOk);
}

// The second thread still has an input from before the rejoin when the first has got kRejoined and goes on.
TEST_F(RejoinTest, EachThreadLearnsOfARejoiningBeforeItSubmitsAgain) {
  std::barrier step(2);
  std::vector<Code> codes[2];
  const auto train = [&](std::uint32_t channel) {
    std::uint8_t byte = 1;
    const auto submit = [&] {
      const OpOptions options{.channel = channel};
      codes[channel].push_back(
          session_->AllReduce(&byte, &byte, 1, DType::kU8, ReduceOp::kSum, options).status().code());
    };
    submit();
    step.arrive_and_wait();
    if (channel == 0) {
      daemon_.Die();
      submit();
      submit();
    }
    step.arrive_and_wait();
    if (channel == 1) submit();
    step.arrive_and_wait();
    submit();
  };
  std::thread second(train, 1);
  train(0);
  second.join();
  EXPECT_EQ(codes[0], (std::vector<Code>{Code::kOk, Code::kRejoined, Code::kOk, Code::kOk}));
  EXPECT_EQ(codes[1], (std::vector<Code>{Code::kOk, Code::kRejoined, Code::kOk}));
  EXPECT_EQ(daemon_.Look().submits.size(), 5U) << "nothing beside those that succeeded";
}

// Another thread gets kRejoined from its UpdateView, or on another channel.
TEST_F(RejoinTest, ThreadLearnsOfItThoughAnotherDidBeforeIt) {
  ASSERT_EQ(ReduceCode(), Code::kOk);
  daemon_.Die();
  std::thread([&] { EXPECT_EQ(session_->UpdateView().status().code(), Code::kRejoined); }).join();
  EXPECT_EQ(ReduceCode(), Code::kRejoined);
  EXPECT_EQ(ReduceCode(), Code::kOk);
  std::thread([&] {
    const auto first = session_->AllReduce(&byte_, &byte_, 1, DType::kU8, ReduceOp::kSum, {.channel = 5});
    EXPECT_EQ(first.status().code(), Code::kRejoined);
  }).join();
  EXPECT_EQ(daemon_.Look().submits.size(), 2U);
  std::thread([&] {
    const auto next = session_->AllReduce(&byte_, &byte_, 1, DType::kU8, ReduceOp::kSum, {.channel = 5});
    EXPECT_EQ(next.status().code(), Code::kOk) << "threads that come and go would never get any further";
  }).join();
}

TEST_F(RejoinTest, ThreadOfSeveralChannelsLearnsOfItOnce) {
  const auto submit = [this](std::uint32_t channel) {
    const OpOptions options{.channel = channel};
    return session_->AllReduce(&byte_, &byte_, 1, DType::kU8, ReduceOp::kSum, options).status().code();
  };
  for (const std::uint32_t channel : {0U, 1U, 63U}) EXPECT_EQ(submit(channel), Code::kOk);
  daemon_.Die();
  EXPECT_EQ(submit(1), Code::kRejoined);
  for (const std::uint32_t channel : {0U, 1U, 63U, 2U}) EXPECT_EQ(submit(channel), Code::kOk) << channel;
}

// One thread has got kRejoined; another still has an input from before the rejoin.
TEST_F(RejoinTest, SubmissionAsThePeerOfBeforeGivesRejoined) {
  const auto submit_as = [this](std::uint64_t peer) {
    return session_->AllReduce(&byte_, &byte_, 1, DType::kU8, ReduceOp::kSum, {.as_peer = peer}).status().code();
  };
  EXPECT_EQ(submit_as(77), Code::kOk);
  daemon_.Die();
  EXPECT_EQ(ReduceCode(), Code::kRejoined);
  EXPECT_EQ(ReduceCode(), Code::kOk);
  const std::size_t before = daemon_.Look().submits.size();
  EXPECT_EQ(submit_as(77), Code::kRejoined);
  EXPECT_EQ(daemon_.Look().submits.size(), before);
  EXPECT_EQ(submit_as(78), Code::kOk);
}

TEST_F(RejoinTest, LossFoundByPollingIsReportedByTheNextSubmission) {
  {
    Work work = Hold(&byte_, 1);
    daemon_.Die();
    while (!work.Test()) std::this_thread::yield();
  }
  EXPECT_EQ(session_->UpdateView().status().code(), Code::kRejoined);
  EXPECT_EQ(daemon_.Look().submits.size(), 1u) << "nothing was submitted to the new daemon";
  EXPECT_TRUE(session_->UpdateView().ok());
}

TEST_F(RejoinTest, WhatTheOldDaemonCommittedSucceeds) {
  std::vector<std::uint8_t> values(64, 7);
  auto done = session_->AllReduceAsync(values.data(), values.data(), 64, DType::kU8, ReduceOp::kSum);
  ASSERT_TRUE(done.ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  Work lost = Hold(&byte_, 1);
  daemon_.SetWorld(3, 0, 2);
  daemon_.Die();
  EXPECT_EQ(lost.Wait().status().code(), Code::kRejoined);
  ASSERT_TRUE(done->Wait().ok());
  EXPECT_EQ(values, std::vector<std::uint8_t>(64, 8));
  EXPECT_EQ(session_->world_size(), 2u) << "the old membership's world is history";
}

TEST_F(RejoinTest, RefusalOfAStoppingDaemonGivesRejoined) {
  Work work = Hold(&byte_, 1);
  daemon_.FailHeld(Code::kShuttingDown, "the daemon is stopping");
  EXPECT_EQ(work.Wait(Milliseconds(1)).status().code(), Code::kTimeout);
  daemon_.SendEnded(Code::kShuttingDown, "the daemon is stopping");
  EXPECT_EQ(work.Wait().status().code(), Code::kRejoined);
}

TEST_F(RejoinTest, BuffersKeepTheirPlaceAndAreRegisteredAgain) {
  auto buffer = session_->Allocate(1000);
  ASSERT_TRUE(buffer.ok());
  std::uint8_t* const memory = buffer->as<std::uint8_t>();
  std::memset(memory, 7, 1000);
  daemon_.GoAway();
  auto held = std::async(std::launch::async, [&] { return Reduce(memory, 1000).status().code(); });
  daemon_.ComeBack();
  EXPECT_EQ(held.get(), Code::kRejoined);
  EXPECT_EQ(buffer->data(), memory);
  EXPECT_EQ(memory[999], 7);
  ASSERT_TRUE(Reduce(memory, 1000).ok());
  EXPECT_EQ(memory[999], 8);
  EXPECT_EQ(daemon_.Look().submits.at(0).input_offset_bytes, 0u);
  EXPECT_TRUE(daemon_.Look().seals_were_right);
}

TEST_F(RejoinTest, RegionsOfLostOperationsAreUsedAgain) {
  { const Work detached = Hold(&byte_, 1); }
  Work lost = Hold(&byte_, 1);
  daemon_.Die();
  EXPECT_EQ(lost.Wait().status().code(), Code::kRejoined);
  EXPECT_EQ(daemon_.Look().region_bytes.size(), 4u);
  Work first = Hold(&byte_, 1);
  Work second = Hold(&byte_, 1);
  EXPECT_EQ(daemon_.Look().region_bytes.size(), 8u) << "the same four, for the new daemon";
  daemon_.CompleteHeld();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_TRUE(daemon_.Look().seals_were_right);
}

TEST_F(RejoinTest, SeveralThreadsLearnOfOneRejoiningTogether) {
  std::uint8_t bytes[2] = {1, 1};
  Work first = Hold(&bytes[0], 1);
  Work second = Hold(&bytes[1], 1);
  auto waiter = std::async(std::launch::async, [&] { return first.Wait().status().code(); });
  daemon_.GoAway();
  daemon_.ComeBack();
  EXPECT_EQ(second.Wait().status().code(), Code::kRejoined);
  EXPECT_EQ(waiter.get(), Code::kRejoined);
  EXPECT_EQ(ReduceCode(), Code::kOk);
  EXPECT_EQ(daemon_.Look().joins, 2u);
}

TEST_F(RejoinTest, EachLossIsSurvived) {
  for (std::uint64_t loss = 1; loss <= 3; ++loss) {
    Work work = Hold(&byte_, 1);
    daemon_.Die();
    EXPECT_EQ(work.Wait().status().code(), Code::kRejoined);
    EXPECT_EQ(session_->peer_id(), 77 + loss);
    EXPECT_EQ(ReduceCode(), Code::kOk);
  }
}

TEST_F(RejoinTest, NoDaemonInTimeEndsTheSession) {
  ASSERT_NO_FATAL_FAILURE(Join(Milliseconds(60)));
  Work work = Hold(&byte_, 1);
  daemon_.GoAway();
  const auto outcome = work.Wait();
  EXPECT_EQ(outcome.status().code(), Code::kDaemonLost);
  EXPECT_NE(outcome.status().text().find("60 ms"), std::string::npos) << outcome.status().text();
  EXPECT_NE(outcome.status().text().find(daemon_.socket_path()), std::string::npos) << outcome.status().text();
  daemon_.ComeBack();
  EXPECT_EQ(ReduceCode(), Code::kDaemonLost);
  EXPECT_EQ(session_->Allocate(1).status().code(), Code::kDaemonLost);
}

TEST_F(RejoinTest, DaemonThatTakesNobodyEndsTheSessionWithItsReason) {
  ASSERT_NO_FATAL_FAILURE(Join(Milliseconds(60)));
  Work work = Hold(&byte_, 1);
  daemon_.SetJoin(Code::kShuttingDown);
  daemon_.SendEnded(Code::kShuttingDown, "an operator takes this daemon out of service");
  const auto outcome = work.Wait();
  EXPECT_EQ(outcome.status().code(), Code::kShuttingDown);
  EXPECT_NE(outcome.status().text().find("another host's daemon"), std::string::npos) << outcome.status().text();
  EXPECT_EQ(outcome.status().text().find("start ringwayd"), std::string::npos) << outcome.status().text();
}

TEST_F(RejoinTest, LastRefusalEndsTheSession) {
  ASSERT_NO_FATAL_FAILURE(Join(Milliseconds(60)));
  daemon_.SetJoin(Code::kJoinRefused);
  Work work = Hold(&byte_, 1);
  daemon_.Die();
  EXPECT_EQ(work.Wait().status().code(), Code::kJoinRefused);
  EXPECT_EQ(session_->UpdateView().status().code(), Code::kJoinRefused);
}

// The group may still hold the old membership when the new one comes.
TEST_F(RejoinTest, RefusedJoinIsTriedAgain) {
  daemon_.SetJoin(Code::kJoinRefused);
  Work work = Hold(&byte_, 1);
  daemon_.Die();
  EXPECT_FALSE(work.Test());
  auto waiter = std::async(std::launch::async, [&] { return work.Wait().status().code(); });
  ASSERT_TRUE(WaitForJoins(4));
  daemon_.SetJoin(Code::kOk);
  EXPECT_EQ(waiter.get(), Code::kRejoined);
}

// SetUp gave it a minute.
TEST_F(RejoinTest, RefusalForGoodEndsTheSessionAtOnce) {
  daemon_.SetJoin(Code::kVersionMismatch);
  Work work = Hold(&byte_, 1);
  daemon_.Die();
  const auto outcome = work.Wait();
  EXPECT_EQ(outcome.status().code(), Code::kVersionMismatch) << outcome.status().text();
  EXPECT_NE(outcome.status().text().find(daemon_.socket_path()), std::string::npos) << outcome.status().text();
  EXPECT_EQ(daemon_.Look().joins, 2u) << "it was tried again";
  EXPECT_EQ(ReduceCode(), Code::kVersionMismatch);
}

TEST_F(RejoinTest, EvictedSessionRejoinsThroughTheSameDaemon) {
  Work work = Hold(&byte_, 1);
  daemon_.SendEnded(Code::kEvicted, "the others went on");
  const auto outcome = work.Wait();
  EXPECT_EQ(outcome.status().code(), Code::kRejoined);
  EXPECT_NE(outcome.status().text().find("the others went on"), std::string::npos) << outcome.status().text();
  EXPECT_EQ(ReduceCode(), Code::kOk);
  EXPECT_EQ(daemon_.Look().joins, 2u);
}

TEST_F(RejoinTest, EvictedSessionThatIsNotToRejoinEnds) {
  rejoin_when_evicted_ = false;
  Join(seconds(60));
  Work work = Hold(&byte_, 1);
  daemon_.SendEnded(Code::kEvicted, "the others went on");
  EXPECT_EQ(work.Wait().status().code(), Code::kEvicted);
  EXPECT_EQ(ReduceCode(), Code::kEvicted);
  EXPECT_EQ(daemon_.Look().joins, 2u) << "those of this test";
}

TEST_F(RejoinTest, AbortEndsAllWaitsOfAMemberAndOfOneThatRejoins) {
  for (const bool rejoins : {false, true}) {
    Join(seconds(60));
    Work work = Hold(&byte_, 1);
    if (rejoins) daemon_.GoAway();
    auto waiter = std::async(std::launch::async, [&] { return work.Wait().status().code(); });
    auto submitter = std::async(std::launch::async, [&] { return rejoins ? ReduceCode() : Code::kLeft; });
    EXPECT_EQ(waiter.wait_for(Milliseconds(20)), std::future_status::timeout);
    session_->Abort();
    EXPECT_EQ(waiter.get(), Code::kLeft);
    EXPECT_EQ(submitter.get(), Code::kLeft);
    EXPECT_EQ(ReduceCode(), Code::kLeft);
    EXPECT_EQ(session_->UpdateView().status().code(), Code::kLeft);
    if (rejoins) daemon_.ComeBack();
  }
}

TEST_F(RejoinTest, LeaveGivesARejoiningUp) {
  Work work = Hold(&byte_, 1);
  daemon_.GoAway();
  EXPECT_EQ(work.Wait(Milliseconds(1)).status().code(), Code::kTimeout);
  auto waiter = std::async(std::launch::async, [&] { return work.Wait().status().code(); });
  EXPECT_TRUE(session_->Leave().ok());
  EXPECT_EQ(waiter.get(), Code::kLeft);
  EXPECT_EQ(session_->Leave().code(), Code::kLeft);
}

TEST_F(RejoinTest, DestroyedSessionGivesUpAJoinThatWaits) {
  daemon_.SetJoin(Code::kOk, false);
  Work work = Hold(&byte_, 1);
  daemon_.Die();
  auto waiter = std::async(std::launch::async, [&] { return work.Wait().status().code(); });
  ASSERT_TRUE(WaitForJoins(2));
  session_.reset();
  EXPECT_EQ(waiter.get(), Code::kLeft);
  EXPECT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.disconnects == 2; }));
}

TEST_F(RejoinTest, ForkedChildOfARejoiningSessionOwnsNothing) {
  Work work = Hold(&byte_, 1);
  daemon_.GoAway();
  EXPECT_EQ(work.Wait(Milliseconds(1)).status().code(), Code::kTimeout);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = ReduceCode() == Code::kForked && work.Wait().status().code() == Code::kForked &&
                       session_->Leave().code() == Code::kForked;
    work = Work();
    session_.reset();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  daemon_.ComeBack();
  EXPECT_EQ(work.Wait().status().code(), Code::kRejoined);
}

}  // namespace
}  // namespace ringway
