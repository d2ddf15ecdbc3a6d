// Streams that wait for a word, and host memory that is unpinned only while none does.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "daemon/staging/cuda_calls.h"

namespace ringway::staging {

// The words that the streams of one device wait for. Never freed: a stream may still read one.
class HoldWords {
 public:
  struct Word {
    std::atomic<std::uint32_t>* value = nullptr;
    std::uintptr_t address = 0;  // for the device
    std::atomic<bool> is_free = true;
    Event passed;  // recorded behind the wait
  };

  // Makes `stream` wait for the word that is returned. REQUIRES: the device is the thread's.
  Status Take(cudaStream_t stream, Word** taken) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Word* word = FindFree();
    if (word == nullptr) {
      if (const Status status = AddPage(); !status.ok()) return status;
      word = FindFree();
    }
    if (word == nullptr) return Failure(Code::kDeviceFailed, "the device does not say which streams went on");
    if (const Status status = ToStatus(word->passed.Create(), "cudaEventCreate"); !status.ok()) return status;
    word->value->store(0, std::memory_order_release);
    const int error = Driver::Get().wait_value(stream, word->address, 1, Driver::kWaitUntilAtLeast);
    if (error != 0) return Failure(Code::kDeviceFailed, "cuStreamWaitValue32 failed (%d); call Wait instead", error);
    word->is_free = false;
    const Status recorded = ToStatus(word->passed.Record(stream), "cudaEventRecord");
    if (!recorded.ok()) word->value->store(1, std::memory_order_release);  // and the word is never used again
    *taken = recorded.ok() ? word : nullptr;
    return recorded;
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kWordBytes = 64;

  static bool IsPassed(const Event& event) {
    if (event.get() == nullptr) return true;
    const cudaError_t state = cudaEventQuery(event.get());
    if (state != cudaSuccess) (void)cudaGetLastError();
    return state == cudaSuccess;
  }

  Word* FindFree() {
    const auto free = std::find_if(words_.begin(), words_.end(),
                                   [](const auto& word) { return word->is_free && IsPassed(word->passed); });
    return free == words_.end() ? nullptr : free->get();
  }

  Status AddPage() {
    void* page = nullptr;
    void* mapped = nullptr;
    cudaError_t made = cudaHostAlloc(&page, kPageBytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (made == cudaSuccess) made = cudaHostGetDevicePointer(&mapped, page, 0);
    if (made != cudaSuccess) return ToStatus(made, "cudaHostAlloc");
    for (std::size_t offset = 0; offset < kPageBytes; offset += kWordBytes) {
      words_.push_back(std::make_unique<Word>());
      words_.back()->value = new (static_cast<std::byte*>(page) + offset) std::atomic<std::uint32_t>(1);
      words_.back()->address = reinterpret_cast<std::uintptr_t>(mapped) + offset;
    }
    return {};
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Word>> words_;
};

// Unpins host memory, only while no stream is held.
class Unpinner {
 public:
  struct Pinned {
    int device = 0;
    void* host = nullptr;
    void (*then)(void*) = nullptr;
    void* context = nullptr;
  };

  void Add(const Pinned& pinned) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!worker_.is_running()) worker_.Begin([this] { UnpinOne(); });
    ended_.push_back(pinned);
    added_.notify_one();
  }
  // Waits for the one that is being unpinned.
  void OnHold() {
    const std::lock_guard<std::mutex> lock(unpinning_);
    ++holds_;
  }
  void OnRelease() { --holds_; }

 private:
  void UnpinOne() {
    constexpr std::chrono::milliseconds kLook(10);
    Pinned pinned;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      added_.wait(lock, [this] { return !ended_.empty(); });
      pinned = ended_.front();
      ended_.pop_front();
    }
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(unpinning_);
        if (holds_ == 0) {
          Unpin(pinned);
          break;
        }
      }
      std::this_thread::sleep_for(kLook);
    }
    pinned.then(pinned.context);
  }

  static void Unpin(const Pinned& pinned) {
    const OnDevice on_device(pinned.device);
    if (cudaHostUnregister(pinned.host) != cudaSuccess) (void)cudaGetLastError();
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Pinned> ended_;
  std::mutex unpinning_;  // between the look at holds_ and the end of unpinning
  std::atomic<int> holds_ = 0;
  Worker worker_;
};

struct CudaHold : device::Hold {
  HoldWords::Word* word = nullptr;
  Unpinner* unpinner = nullptr;
  ~CudaHold() override {
    if (word == nullptr) return;
    word->value->store(1, std::memory_order_release);
    word->is_free = true;
    unpinner->OnRelease();
  }
};

}  // namespace ringway::staging
