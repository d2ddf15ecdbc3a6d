// Operations on device memory, with the tests' device: staging, and what a device that fails costs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/device_fixture.h"

namespace ringway {
namespace {

// Before anything asks for a device library.
[[maybe_unused]] const int kChosen = ::setenv("RINGWAY_DEVICE_LIBRARY", RINGWAY_TEST_DEVICE_PATH, 1);

TEST_F(DeviceTest, LargeInputIsStagedInSlicesAndTheResultCopiedBack) {
  const Memory input(kLarge);
  const Memory output(kLarge, 0);
  const auto result = Reduce(input.data(), output.data(), kLarge);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(output.Copy() == Pattern(kLarge, 4));
  EXPECT_TRUE(input.Copy() == Pattern(kLarge, 3));
  const auto seen = daemon_.Look();
  EXPECT_EQ(seen.submits.at(0).staged, 1u);
  EXPECT_EQ(seen.progress.back(), kLarge);
}

TEST_F(DeviceTest, PartsOfAnAllocationInPlaceAndMixedWithHostMemory) {
  const Memory memory(10'000);
  std::uint8_t* const middle = static_cast<std::uint8_t*>(memory.data()) + 1000;
  ASSERT_TRUE(Reduce(middle, middle, 77).ok());
  auto expected = Pattern(10'000, 3);
  for (std::size_t i = 1000; i < 1077; ++i) ++expected[i];
  EXPECT_EQ(memory.Copy(), expected);
  // Results go to the host and to a Buffer, inputs come from the host and from a Buffer.
  std::vector<std::uint8_t> host(100);
  ASSERT_TRUE(Reduce(memory.data(), host.data(), 100).ok());
  EXPECT_EQ(host, Pattern(100, 4));
  auto buffer = session_->Allocate(100);
  ASSERT_TRUE(Reduce(memory.data(), buffer->data(), 100).ok());
  EXPECT_EQ(std::memcmp(buffer->data(), host.data(), 100), 0);
  ASSERT_TRUE(Reduce(host.data(), memory.data(), 100).ok());
  EXPECT_EQ(memory.begin()[99], static_cast<std::uint8_t>(host[99] + 1));
  ASSERT_TRUE(Reduce(buffer->data(), memory.data(), 50).ok());
  EXPECT_EQ(memory.begin()[49], static_cast<std::uint8_t>(host[49] + 1));
}

TEST_F(DeviceTest, MemoryOfTwoDevices) {
  const Memory input(kLarge, 3, 1);
  const Memory output(kLarge, 0, 0);
  ASSERT_TRUE(Reduce(input.data(), output.data(), kLarge).ok());
  EXPECT_TRUE(output.Copy() == Pattern(kLarge, 4));
}

TEST_F(DeviceTest, OtherCollectivesOnDeviceMemory) {
  const Memory input(1000);
  const Memory output(1000, 0);
  ASSERT_TRUE(session_->AllGather(input.data(), 1000, output.data(), 1000, DType::kU8).ok());
  EXPECT_EQ(output.Copy(), Pattern(1000, 4));
  daemon_.SetWorld(2, 1, 2);
  const Memory part(1000, 0);
  const auto scattered = session_->ReduceScatter(input.data(), part.data(), 1000, DType::kU8, ReduceOp::kSum);
  ASSERT_TRUE(scattered.ok()) << scattered.status().text();
  auto expected = Pattern(1000, 0);
  for (std::size_t i = 500; i < 1000; ++i) expected[i] = static_cast<std::uint8_t>(4 + i);
  EXPECT_EQ(part.Copy(), expected);
}

TEST_F(DeviceTest, MemoryThatEndsTooSoonIsRefused) {
  const Memory memory(1000);
  const auto result = Reduce(memory.data(), memory.data(), 1001);
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().text().find("ends after 1000"), std::string::npos) << result.status().text();
  EXPECT_TRUE(daemon_.Look().submits.empty());
}

TEST_F(DeviceTest, WithoutPinnedMemoryNothingIsSubmitted) {
  device().SetFaults({.no_memory_one_in = 1});
  const Memory memory(1000);
  const auto result = Reduce(memory.data(), memory.data(), 1000);
  EXPECT_EQ(result.status().code(), Code::kResourceExhausted);
  EXPECT_NE(result.status().text().find("nothing was submitted"), std::string::npos) << result.status().text();
  EXPECT_TRUE(daemon_.Look().submits.empty());
  device().Reset();
  EXPECT_TRUE(Reduce(memory.data(), memory.data(), 1000).ok());
}

// The copy of the input is refused, or fails on its way.
TEST_F(DeviceTest, InputThatDoesNotArriveCancelsItsOperation) {
  const Memory memory(kLarge);
  for (const Faults& faults : {Faults{.refuse_one_in = 1}, Faults{.fail_one_in = 1}}) {
    device().SetFaults(faults);
    auto work = Start(memory.data(), memory.data(), kLarge);
    ASSERT_TRUE(work.ok()) << work.status().text();
    const auto result = work->Wait();
    EXPECT_EQ(result.status().code(), Code::kDeviceFailed);
    EXPECT_NE(result.status().text().find("injected"), std::string::npos) << result.status().text();
    EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 3));
    ExpectHostWorks();
  }
  EXPECT_EQ(daemon_.Look().cancels.size(), 2u);
}

// Dropped anyway it needs no error. Kept, the trainer counts on it.
TEST_F(DeviceTest, LateInputThatDoesNotArriveFailsOnlyAnOperationThatKeepsIt) {
  daemon_.SetLate(true);
  const Memory input(kLarge);
  std::vector<float> output(kLarge / sizeof(float));
  device().SetFaults({.fail_one_in = 1});
  for (const Late late : {Late::kDropped, Late::kNext}) {
    const OpOptions options{
        .codec = Codec::kInt8, .quorum = Quorum::Ranks(1), .late = late, .error_feedback = "gradient"};
    const auto result =
        session_->AllReduce(input.data(), output.data(), output.size(), DType::kF32, ReduceOp::kSum, options);
    if (late == Late::kDropped) {
      ASSERT_TRUE(result.ok()) << result.status().text();
      EXPECT_TRUE(result->is_late);
    } else {
      EXPECT_EQ(result.status().code(), Code::kDeviceFailed);
      EXPECT_NE(result.status().text().find("it is not kept"), std::string::npos) << result.status().text();
    }
  }
}

TEST_F(DeviceTest, ResultThatDoesNotReachTheDeviceEndsThisRanksSession) {
  daemon_.SetHolds(true);
  const Memory memory(kLarge);
  auto work = Start(memory.data(), memory.data(), kLarge);
  ASSERT_TRUE(IsStaged(kLarge));
  device().Lose();
  daemon_.CompleteHeld();
  const auto result = work->Wait();
  EXPECT_EQ(result.status().code(), Code::kDeviceFailed);
  EXPECT_TRUE(daemon_.Look().cancels.empty());
  // The others go on with a result that this rank has not.
  EXPECT_EQ(Start(memory.data(), memory.data(), 1).status().code(), Code::kDeviceFailed);
  EXPECT_EQ(session_->Leave().code(), Code::kDeviceFailed);
  EXPECT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.disconnects == 1; }));
}

TEST_F(DeviceTest, HungCopyOfTheResultIsGivenUp) {
  daemon_.SetHolds(true);
  const Memory memory(kLarge);
  const Memory held(1000);
  TestStream stream;
  auto work = Start(memory.data(), memory.data(), kLarge);
  auto other = Start(held.data(), held.data(), 1000, &stream, 1);
  ASSERT_TRUE(other->WaitOnStream(stream.handle()).ok());
  ASSERT_TRUE(IsStaged(1000));
  device().SetFaults({.hang_one_in = 1});
  daemon_.CompleteHeld();
  EXPECT_EQ(work->Wait(Milliseconds(0)).status().code(), Code::kTimeout);
  device().SetFaults({.hang_one_in = 1, .patience_ms = 10});
  EXPECT_EQ(work->Wait().status().code(), Code::kDeviceFailed);
  EXPECT_EQ(other->Wait().status().code(), Code::kDeviceFailed);
  EXPECT_EQ(session_->Leave().code(), Code::kDeviceFailed);
  device().Reset();  // what was given up goes on, into memory that is still there
  stream.Synchronize();
}

TEST_F(DeviceTest, CopiesInFlightOutliveWorkAndSession) {
  device().SetFaults({.hang_one_in = 1});
  const Memory memory(kLarge);
  {
    auto work = Start(memory.data(), memory.data(), kLarge);
    ASSERT_TRUE(work.ok());
  }
  session_.reset();
  EXPECT_GT(device().pinned_bytes(), 0u);
  device().Reset();
  while (device().pinned_bytes() > 0) std::this_thread::yield();
}

TEST_F(DeviceTest, FreedSlotIsNotTouchedByALateCopy) {
  daemon_.SetHolds(true);
  device().SetFaults({.hang_one_in = 1});
  const Memory memory(kLarge);
  auto late = Start(memory.data(), memory.data(), kLarge);
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 1; }));
  daemon_.FailHeld(Code::kWorldTooSmall, "too few");
  EXPECT_EQ(late->Wait().status().code(), Code::kWorldTooSmall);
  std::vector<Work> later;  // one of them has the slot
  std::vector<std::uint8_t> host(kLarge);
  for (std::uint32_t i = 0; i < 256; ++i) later.push_back(std::move(Start(host.data(), host.data(), 1).value()));
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 257; }));
  device().Reset();
  daemon_.CompleteHeld();
  for (Work& work : later) EXPECT_TRUE(work.Wait().ok());
}

TEST_F(DeviceTest, PinnedMemoryIsReusedAndUnpinnedAtTheEnd) {
  const Memory memory(kLarge);
  ASSERT_TRUE(Reduce(memory.data(), memory.data(), kLarge).ok());
  const std::size_t pinned = device().pinned_bytes();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Reduce(memory.data(), memory.data(), kLarge).ok());
  EXPECT_EQ(device().pinned_bytes(), pinned);
  session_.reset();
  while (device().pinned_bytes() > 0) std::this_thread::yield();
}

// Until then a copy may still write to the memory of a Work that was destroyed.
TEST_F(DeviceTest, UpdateViewWaitsForCopies) {
  const Memory memory(kLarge);
  {
    auto work = Start(memory.data(), memory.data(), kLarge);
    ASSERT_TRUE(IsStaged(kLarge));
    device().SetFaults({.hang_one_in = 1});
    AwaitCopying(*work);
  }
  EXPECT_EQ(session_->UpdateView(Milliseconds(1)).status().code(), Code::kTimeout);
  device().Reset();
  ASSERT_TRUE(session_->UpdateView().ok());
  EXPECT_TRUE(memory.Copy() == Pattern(kLarge, 4));
}

TEST_F(DeviceTest, ForkedChildReducesHostMemoryOfItsOwn) {
  const Memory memory(1000);
  ASSERT_TRUE(Reduce(memory.data(), memory.data(), 1000).ok());
  auto work = Start(memory.data(), memory.data(), 1000);
  const pid_t child = ::fork();
  if (child == 0) {
    work = Status(Code::kLeft, "");  // destroys the parent's Work
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(work->Wait().ok());
}

}  // namespace
}  // namespace ringway
