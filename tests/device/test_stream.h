// Streams of the tests' device, and gates for them.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "proto/device/library.h"

namespace ringway::testing {

// A gate that is passed once opened.
class Gate {
 public:
  void Open();
  // At once if it is open.
  void WhenOpen(std::function<void()> next);
  void Pass();

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  std::vector<std::function<void()>> then_;
  bool is_open_ = false;
};

// Runs its work in order, on a thread of its own.
class TestStream {
 public:
  TestStream();
  ~TestStream();  // when all that was enqueued is done
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  device::Stream handle() { return this; }
  void Enqueue(std::function<void()> work);
  void Synchronize();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ringway::testing
