// Which streams of the process wait for results, and why no more may: what runs on a GPU and what is asked of its
// driver can be kept waiting by them.
//
//   hardware queues   kernels of all streams of a device share few of them (CUDA_DEVICE_MAX_CONNECTIONS, 8 unless set),
//                     and one that comes into the queue of a stream that waits, for the others are busy, waits, too: so
//                     a quarter of them wait at most
//   unpinning         cudaHostUnregister waits until all streams have done what they have, and keeps the driver: so it
//                     begins when none waits, and none begins to wait before it is done
//
// Threads: any. Pure but for the waiting.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace ringway::staging {

class HeldStreams {
 public:
  // Waits of one stream at once: a queue takes about a thousand commands, a wait has five, and who enqueues into a full
  // one is kept in the driver.
  static constexpr std::size_t kMostOfAStream = 32;

  // `most`: of each device, at once.
  explicit HeldStreams(std::size_t most) : most_(most) {}

  // Returns whether the stream may wait now; else its caller has to.
  bool Enter(std::int32_t device, const void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Streams& streams = held_[device];
    const auto found = streams.find(stream);
    const bool is_full = found == streams.end() ? streams.size() >= most_ : found->second >= kMostOfAStream;
    if (unpinnings_ > 0 || is_full) return false;
    ++streams[stream];
    return true;
  }
  // It waits once less.
  void Leave(std::int32_t device, const void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Streams& streams = held_[device];
    if (--streams[stream] == 0) streams.erase(stream);
    left_.notify_all();
  }

  // Lets no stream begin to wait until EndUnpinning.
  void BeginUnpinning() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++unpinnings_;
  }
  // Blocks until none waits: results come, or their operations end. REQUIRES: unpinning has begun.
  void AwaitNone() {
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [this] {
      for (const auto& [device, streams] : held_) {
        if (!streams.empty()) return false;
      }
      return true;
    });
  }
  void EndUnpinning() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --unpinnings_;
  }

 private:
  using Streams = std::map<const void*, std::size_t>;  // how often each waits

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::int32_t, Streams> held_;
  std::size_t unpinnings_ = 0;
};

}  // namespace ringway::staging
