// A device without hardware: memory that only asynchronous copies on other threads reach (an access by the host
// faults), streams that run in order beside each other, and faults at every point.
//
// Loaded as the process's device library (RINGWAY_DEVICE_LIBRARY), and linked by tests that steer it.
// RINGWAY_TEST_DEVICE in the environment sets the first faults of a process: "delay_us=300,fail_one_in=50,seed=7", keys
// as in Faults.
//
// Free waits for copies in flight, as cudaFree does, and CopyNow for the default stream, as cudaMemcpy does. Between
// them the functions share a driver that serves one thread at a time, also while that waits (SynchronizeInDriver).
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "proto/device/library.h"
#include "tests/device/test_stream.h"

namespace ringway::testing {

struct Faults {
  std::uint32_t delay_us = 0;  // of each slice, at most
  // One of so many, by dice; 0: none, 1: all.
  std::uint32_t fail_one_in = 0;       // slices, after which their copy is over
  std::uint32_t hang_one_in = 0;       // slices, which wait until Reset
  std::uint32_t refuse_one_in = 0;     // Starts
  std::uint32_t no_memory_one_in = 0;  // Pins
  std::uint32_t no_hold_one_in = 0;    // streams, for which the caller has to wait
  std::uint32_t patience_ms = 60'000;
  std::uint32_t seed = 1;
};

class TestDevice : public device::Library {
 public:
  // The process's; the same whoever asks.
  static TestDevice& Get();

  static constexpr std::int32_t kCount = 2;  // devices 0 and 1

  virtual void SetFaults(const Faults& faults) = 0;
  // No faults, and what hangs goes on.
  virtual void Reset() = 0;
  // The device is lost: all that runs or comes fails, until Reset.
  virtual void Lose() = 0;
  // Keeps the driver until the stream's work is done, as a synchronous copy behind it does.
  virtual void SynchronizeInDriver(TestStream* stream) = 0;
  virtual bool IsDriverKept() const = 0;  // by that
  virtual int drivers_queue() const = 0;  // threads that are to be let in

  // Returns the device memory as its own device, and so a kernel, sees it. REQUIRES: `memory` is of Allocate.
  virtual std::byte* Contents(void* memory) = 0;
  virtual std::size_t pinned_bytes() const = 0;
};

}  // namespace ringway::testing
