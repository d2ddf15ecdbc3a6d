// Host memory that is unpinned on a thread of its own: cudaHostUnregister waits for an idle device, and keeps the
// driver meanwhile; so it comes when no stream waits for a result.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "daemon/staging/cuda_calls.h"
#include "daemon/staging/held_streams.h"

namespace ringway::staging {

class Unpinner {
 public:
  struct Pinned {
    int device = 0;
    void* host = nullptr;
    void (*then)(void*) = nullptr;
    void* context = nullptr;
  };

  explicit Unpinner(HeldStreams* streams) : streams_(streams) {}

  void Add(const Pinned& pinned) {
    streams_->BeginUnpinning();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!worker_.is_running()) worker_.Begin([this] { UnpinOne(); });
    ended_.push_back(pinned);
    added_.notify_one();
  }

 private:
  void UnpinOne() {
    Pinned pinned;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      added_.wait(lock, [this] { return !ended_.empty(); });
      pinned = ended_.front();
      ended_.pop_front();
    }
    streams_->AwaitNone();
    Unpin(pinned);
    streams_->EndUnpinning();
    pinned.then(pinned.context);
  }

  static void Unpin(const Pinned& pinned) {
    const OnDevice on_device(pinned.device);
    if (!on_device.status().ok()) return ProcessExit::ParkIfClosed();
    if (cudaHostUnregister(pinned.host) != cudaSuccess) (void)cudaGetLastError();
  }

  HeldStreams* const streams_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Pinned> ended_;
  Worker worker_;
};

}  // namespace ringway::staging
