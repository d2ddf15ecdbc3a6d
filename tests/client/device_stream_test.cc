// Streams of the tests' device: what they hold before an operation, and what waits for its result.
#include <gtest/gtest.h>
#include <ringway/ringway.h>

#include <atomic>
#include <future>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "tests/client/device_fixture.h"

namespace ringway {
namespace {

using DeviceStreamTest = DeviceTest;

TEST_F(DeviceStreamTest, InputIsReadAfterWhatTheStreamHolds) {
  TestStream stream;
  const Memory memory(1000, 0);
  std::promise<void> go;
  stream.Enqueue([&, gone = go.get_future().share()] {
    gone.wait();
    std::iota(memory.begin(), memory.end(), std::uint8_t{50});
  });
  auto work = Start(memory.data(), memory.data(), 1000, &stream);  // does not wait for the stream
  ASSERT_TRUE(work.ok()) << work.status().text();
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 1; }));
  EXPECT_FALSE(work->Test());
  go.set_value();
  ASSERT_TRUE(work->Wait().ok());
  EXPECT_EQ(memory.Copy(), Pattern(1000, 51));
}

TEST_F(DeviceStreamTest, StreamWaitsForTheResultAndTheHostDoesNot) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(kLarge);
  auto work = Start(memory.data(), memory.data(), kLarge, &stream);
  ASSERT_TRUE(work.ok());
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  std::vector<std::uint8_t> seen_there;
  std::atomic<bool> ran = false;
  stream.Enqueue([&] {
    seen_there = memory.Copy();
    ran = true;
  });
  ASSERT_TRUE(IsStaged(kLarge));
  EXPECT_FALSE(ran);
  EXPECT_FALSE(work->Test());
  daemon_.CompleteHeld();
  stream.Synchronize();
  EXPECT_TRUE(seen_there == Pattern(kLarge, 4));
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_TRUE(work->WaitOnStream(stream.handle()).ok());  // nothing to wait for any more
}

TEST_F(DeviceStreamTest, ChainOfOperationsOnOneStreamNeedsNoHost) {
  constexpr int kLength = 20;
  TestStream stream;
  const Memory memory(1000);
  for (int i = 0; i < kLength; ++i) {
    auto work = Start(memory.data(), memory.data(), 1000, &stream);
    ASSERT_TRUE(work.ok()) << work.status().text();
    ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());  // and the Work is destroyed
  }
  stream.Synchronize();
  EXPECT_EQ(memory.Copy(), Pattern(1000, 3 + kLength));
}

TEST_F(DeviceStreamTest, StreamsInC) {
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = daemon_.socket_path().c_str();
  config.group = "job";
  config.waitWorld = 1;
  session_.reset();
  ringwayComm_t comm = nullptr;
  ASSERT_EQ(ringwayCommInit(&comm, &config), ringwaySuccess) << ringwayGetLastError(nullptr);
  TestStream stream;
  const Memory memory(1000, 0);
  std::promise<void> go;
  stream.Enqueue([&, gone = go.get_future().share()] {
    gone.wait();
    std::iota(memory.begin(), memory.end(), std::uint8_t{50});
  });
  ringwayOpOptions_t options = RINGWAY_OP_OPTIONS_INITIALIZER;
  options.stream = stream.handle();
  ringwayWork_t work = nullptr;
  ASSERT_EQ(
      ringwayAllReduceAsyncWith(memory.data(), memory.data(), 1000, ringwayUint8, ringwaySum, &options, comm, &work),
      ringwaySuccess);
  EXPECT_EQ(ringwayWorkWaitOnStream(nullptr, stream.handle()), ringwayInvalidArgument);
  go.set_value();
  ASSERT_EQ(ringwayWorkWaitOnStream(work, stream.handle()), ringwaySuccess);
  stream.Synchronize();
  EXPECT_EQ(memory.Copy(), Pattern(1000, 51));
  EXPECT_EQ(ringwayWorkWait(work, RINGWAY_FOREVER, nullptr), ringwaySuccess);
  EXPECT_EQ(ringwayWorkFree(work), ringwaySuccess);
  EXPECT_EQ(ringwayCommDestroy(comm), ringwaySuccess);
}

TEST_F(DeviceStreamTest, TwoStreamsWaitForOneResult) {
  daemon_.SetHolds(true);
  TestStream first;
  TestStream second;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &first);
  ASSERT_TRUE(work->WaitOnStream(first.handle()).ok());
  ASSERT_TRUE(work->WaitOnStream(second.handle()).ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 1; }));
  daemon_.CompleteHeld();
  first.Synchronize();
  second.Synchronize();
  EXPECT_EQ(memory.begin()[0], 4);
}

// A synchronous copy behind the stream's work keeps all others out of the driver so.
TEST_F(DeviceStreamTest, ResultReachesAStreamWhoseWaiterHasTheDriver) {
  daemon_.SetHolds(true);
  TestStream stream;
  TestStream inputs;
  const Memory memory(kLarge);
  const Memory before(kLarge);
  std::promise<void> go;
  std::promise<void> held;
  inputs.Enqueue([gone = go.get_future().share()] { gone.wait(); });
  auto first = Start(before.data(), before.data(), kLarge, &inputs, 1);
  auto work = Start(memory.data(), memory.data(), kLarge, &inputs);
  ASSERT_TRUE(work.ok()) << work.status().text();
  auto waiter = std::async(std::launch::async, [&] {
    const Status error =
        work->WaitOnStream(stream.handle());  // not before both inputs are read, which needs the driver
    held.set_value();
    device().SynchronizeInDriver(&stream);
    return error;
  });
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 2; }));
  go.set_value();
  held.get_future().wait();
  daemon_.CompleteHeld();
  EXPECT_TRUE(waiter.get().ok());
  EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 4));
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_TRUE(first->Wait().ok());
}

TEST_F(DeviceStreamTest, CallerWaitsWhereNoStreamMay) {
  device().SetFaults({.no_hold_one_in = 1});
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  EXPECT_EQ(work->WaitOnStream(stream.handle(), Milliseconds(1)).code(), Code::kTimeout);
  ASSERT_TRUE(IsStaged(1000));
  daemon_.CompleteHeld();
  EXPECT_TRUE(work->WaitOnStream(stream.handle()).ok());
  EXPECT_EQ(memory.Copy(), Pattern(1000, 4));
}

TEST_F(DeviceStreamTest, CallerWaitsWhereNoSecondStreamMay) {
  daemon_.SetHolds(true);
  TestStream first;
  TestStream second;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &first);
  ASSERT_TRUE(work->WaitOnStream(first.handle()).ok());
  device().SetFaults({.no_hold_one_in = 1});
  EXPECT_EQ(work->WaitOnStream(second.handle(), Milliseconds(1)).code(), Code::kTimeout);
  daemon_.CompleteHeld();
  EXPECT_TRUE(work->WaitOnStream(second.handle()).ok());
  EXPECT_EQ(memory.Copy(), Pattern(1000, 4));
}

TEST_F(DeviceStreamTest, InputsSubmittedLaterAreNotWaitedFor) {
  daemon_.SetHolds(true);
  TestStream stream;
  TestStream busy;
  const Memory memory(1000);
  const Memory later(1000);
  std::promise<void> go;
  busy.Enqueue([gone = go.get_future().share()] { gone.wait(); });
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  auto other = Start(later.data(), later.data(), 1000, &busy, 1);
  EXPECT_EQ(other->WaitOnStream(busy.handle(), Milliseconds(1)).code(), Code::kTimeout);
  EXPECT_TRUE(work->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 1; }));
  daemon_.CompleteHeld();
  stream.Synchronize();
  EXPECT_EQ(memory.Copy(), Pattern(1000, 4));
  go.set_value();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_TRUE(other->Wait().ok());
}

// Whose turn in the driver may be long in coming, while a thread has it that waits for a stream.
TEST_F(DeviceStreamTest, CopyThatIsKeptOutOfTheDriverIsNotGivenUp) {
  device().SetFaults({.patience_ms = 500});
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  const Memory other(1000);
  auto held = Start(memory.data(), memory.data(), 1000, &stream, 1);
  ASSERT_TRUE(held->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 1; }));
  daemon_.SetHolds(false);
  auto work = Start(other.data(), other.data(), 1000);
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 2; }));
  auto waiter = std::async(std::launch::async, [&] { device().SynchronizeInDriver(&stream); });
  while (!device().IsDriverKept()) continue;
  EXPECT_EQ(work->Wait(Milliseconds(2500)).status().code(), Code::kTimeout);
  daemon_.CompleteHeld();
  device().SetFaults({});  // how long it then takes is the machine's affair
  waiter.get();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_TRUE(held->Wait().ok());
}

TEST_F(DeviceStreamTest, CopyThatIsRefusedWhenTheResultIsThereEndsTheSession) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  device().SetFaults({.refuse_one_in = 1});
  daemon_.CompleteHeld();
  stream.Synchronize();
  EXPECT_EQ(work->Wait().status().code(), Code::kDeviceFailed);
  EXPECT_EQ(memory.Copy(), Pattern(1000, 3));
  EXPECT_EQ(session_->UpdateView().status().code(), Code::kDeviceFailed);
}

// A Wait that gave up has begun to copy; so the stream has nothing of its own to copy.
TEST_F(DeviceStreamTest, WaitOnStreamAfterACopyHasBegunWaitsForIt) {
  TestStream stream;
  const Memory memory(kLarge);
  auto work = Start(memory.data(), memory.data(), kLarge, &stream);
  ASSERT_TRUE(IsStaged(kLarge));
  device().SetFaults({.hang_one_in = 1});
  AwaitCopying(*work);
  device().Reset();
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 4));
}

TEST_F(DeviceStreamTest, FailedOperationReleasesTheStreamWithTheOutputAsItWas) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 1; }));
  daemon_.FailHeld(Code::kWorldTooSmall, "too few");
  stream.Synchronize();
  EXPECT_EQ(memory.Copy(), Pattern(1000, 3));
  EXPECT_EQ(work->Wait().status().code(), Code::kWorldTooSmall);
}

// A second stream's commands wait for the driver, which a thread keeps that waits for the first.
TEST_F(DeviceStreamTest, FailedOperationReleasesTheStreamWhileAnotherIsAdded) {
  daemon_.SetHolds(true);
  TestStream first;
  TestStream second;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &first);
  ASSERT_TRUE(work->WaitOnStream(first.handle()).ok());
  auto waiter = std::async(std::launch::async, [&] { device().SynchronizeInDriver(&first); });
  while (!device().IsDriverKept()) continue;
  auto added = std::async(std::launch::async, [&] { return work->WaitOnStream(second.handle()); });
  while (device().drivers_queue() == 0) continue;
  daemon_.FailHeld(Code::kWorldTooSmall, "too few");
  waiter.get();
  EXPECT_TRUE(added.get().ok());
  second.Synchronize();
  EXPECT_EQ(work->Wait().status().code(), Code::kWorldTooSmall);
}

TEST_F(DeviceStreamTest, LostDaemonReleasesTheStream) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  daemon_.Die();
  stream.Synchronize();
  EXPECT_EQ(work->Wait().status().code(), Code::kDaemonLost);
}

TEST_F(DeviceStreamTest, DestroyedSessionReleasesTheStream) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  {
    auto work = Start(memory.data(), memory.data(), 1000, &stream);
    ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  }
  session_.reset();
  stream.Synchronize();
}

TEST_F(DeviceStreamTest, WaitOnStreamNeedsDeviceMemory) {
  TestStream stream;
  std::uint8_t value = 1;
  auto work = Start(&value, &value, 1);
  EXPECT_EQ(work->WaitOnStream(stream.handle()).code(), Code::kInvalidArgument);
  const Memory memory(1);
  auto to_host = Start(memory.data(), &value, 1, nullptr, 1);
  EXPECT_EQ(to_host->WaitOnStream(stream.handle()).code(), Code::kInvalidArgument);
  EXPECT_TRUE(to_host->Wait().ok());
  EXPECT_TRUE(work->Wait().ok());
}

// A copy that waits for a stream does not stand in the way of the one that this stream waits for.
TEST_F(DeviceStreamTest, CopiesOvertakeThoseWhoseStreamsWait) {
  TestStream stream;
  const Memory memory(kLarge);
  const Memory other(1000);
  std::vector<std::uint8_t> host = Pattern(1000, 9);
  daemon_.SetHolds(true);
  auto first = Start(memory.data(), memory.data(), kLarge, &stream);
  ASSERT_TRUE(first->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(IsStaged(kLarge));
  daemon_.SetHolds(false);
  auto second = Start(host.data(), other.data(), 1000, &stream, 1);
  AwaitCopying(*second);
  daemon_.CompleteHeld();
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 4));
  EXPECT_EQ(other.Copy(), Pattern(1000, 10));
}

TEST_F(DeviceStreamTest, WaitAnyIsWokenByACopyThatEnds) {
  daemon_.SetHolds(true);
  device().SetFaults({.delay_us = 20'000});
  TestStream stream;
  const Memory memory(kLarge);
  auto work = Start(memory.data(), memory.data(), kLarge, &stream);
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(IsStaged(kLarge));
  auto any = std::async(std::launch::async, [&] { return Work::WaitAny({&*work}); });
  daemon_.CompleteHeld();
  const auto index = any.get();
  ASSERT_TRUE(index.ok()) << index.status().text();
  EXPECT_TRUE(work->Wait(Milliseconds(0)).ok());
}

// It is committed on all ranks: that the session has ended meanwhile is not its outcome.
TEST_F(DeviceStreamTest, WaitAnyWaitsForAResultOnItsWayThoughTheSessionHasEnded) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  device().SetFaults({.hang_one_in = 1});
  daemon_.CompleteHeld();
  ASSERT_TRUE(session_->Leave().ok());
  EXPECT_EQ(Work::WaitAny({&*work}, Milliseconds(0)).status().code(), Code::kTimeout);
  device().Reset();
  const auto first = Work::WaitAny({&*work});
  EXPECT_TRUE(first.ok()) << first.status().text();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(memory.begin()[0], 4);
}

TEST_F(DeviceStreamTest, HungCopyIsGivenUpWhileTheSessionWaitsForOthers) {
  TestStream stream;
  TestStream other;
  const Memory memory(1000);
  const Memory waits(1000);
  daemon_.SetHolds(true);
  auto held = Start(waits.data(), waits.data(), 1000, &other, 1);
  ASSERT_TRUE(held->WaitOnStream(other.handle()).ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 1; }));
  daemon_.SetHolds(false);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.progress.size() == 2; }));
  device().SetFaults({.hang_one_in = 1});
  ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
  device().SetFaults({.hang_one_in = 1, .patience_ms = 10});
  EXPECT_EQ(work->Wait().status().code(), Code::kDeviceFailed);
  other.Synchronize();  // the session has ended with it
  device().Reset();
  stream.Synchronize();
}

TEST_F(DeviceStreamTest, UpdateViewWaitsForWhatStreamsWaitFor) {
  daemon_.SetHolds(true);
  TestStream stream;
  const Memory memory(kLarge);
  ASSERT_TRUE(Start(memory.data(), memory.data(), kLarge, &stream)->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(IsStaged(kLarge));
  EXPECT_EQ(session_->UpdateView(Milliseconds(1)).status().code(), Code::kTimeout);
  daemon_.SetHolds(false);
  daemon_.CompleteHeld();
  const auto updated = session_->UpdateView();
  EXPECT_TRUE(updated.ok()) << updated.status().text();
  EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 4));
}

TEST_F(DeviceStreamTest, WaitAnyNamesAHungCopyAndWaitGivesItUp) {
  const Memory memory(1000);
  auto work = Start(memory.data(), memory.data(), 1000);
  ASSERT_TRUE(IsStaged(1000));
  device().SetFaults({.hang_one_in = 1});
  AwaitCopying(*work);
  device().SetFaults({.hang_one_in = 1, .patience_ms = 10});
  const auto index = Work::WaitAny({&*work});
  ASSERT_TRUE(index.ok()) << index.status().text();
  EXPECT_EQ(work->Wait().status().code(), Code::kDeviceFailed);
  device().Reset();
}

TEST_F(DeviceStreamTest, UpdateViewGivesUpAHungCopyOfADestroyedWork) {
  const Memory memory(1000);
  {
    auto work = Start(memory.data(), memory.data(), 1000);
    ASSERT_TRUE(IsStaged(1000));
    device().SetFaults({.hang_one_in = 1});
    AwaitCopying(*work);
  }
  device().SetFaults({.hang_one_in = 1, .patience_ms = 10});
  EXPECT_EQ(session_->UpdateView().status().code(), Code::kDeviceFailed);
  device().Reset();
}

// Else slices of the old membership's result would fall into the state that is taken over.
TEST_F(DeviceStreamTest, UpdateViewWaitsForCopiesOfTheMembershipBefore) {
  JoinAgain();
  const Memory memory(1000);
  std::optional<Work> work = std::move(Start(memory.data(), memory.data(), 1000).value());
  ASSERT_TRUE(IsStaged(1000));
  device().SetFaults({.hang_one_in = 1});
  AwaitCopying(*work);
  daemon_.Die();
  std::uint8_t value = 1;
  EXPECT_EQ(Reduce(&value, &value, 1).status().code(), Code::kRejoined);
  work.reset();
  EXPECT_EQ(session_->UpdateView(Milliseconds(1)).status().code(), Code::kTimeout);
  device().Reset();
  const auto updated = session_->UpdateView();
  EXPECT_TRUE(updated.ok()) << updated.status().text();
}

TEST_F(DeviceStreamTest, RejoinIsReportedByWaitOnStreamOnce) {
  JoinAgain();
  TestStream stream;
  const Memory memory(1000);
  daemon_.SetHolds(true);
  auto work = Start(memory.data(), memory.data(), 1000, &stream);
  auto other = Start(memory.data(), memory.data(), 1000, &stream, 1);
  ASSERT_TRUE(other->WaitOnStream(stream.handle()).ok());
  daemon_.Die();
  EXPECT_EQ(other->Wait().status().code(), Code::kRejoined);
  EXPECT_EQ(work->WaitOnStream(stream.handle()).code(), Code::kRejoined);
  stream.Synchronize();
  daemon_.SetHolds(false);
  EXPECT_TRUE(Reduce(memory.data(), memory.data(), 1000).ok());  // already reported
}

}  // namespace
}  // namespace ringway
