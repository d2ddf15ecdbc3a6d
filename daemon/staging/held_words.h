// Pool of the pinned words through which the host releases waiting streams, and these report their progress. Words are
// reused, because allocating or freeing pinned memory may wait for what runs on a device. The memory belongs to this
// process alone: forked children do not inherit it, and it outlives a reset of CUDA.
//
// Threads: any.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "daemon/staging/cuda_calls.h"
#include "daemon/staging/held_copy.h"

namespace ringway::staging {

inline bool IsSet(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0; }
inline void Set(std::uint32_t* word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

class HeldWords {
 public:
  // REQUIRES: a device is current.
  Status Take(HeldCopy** words) {
    const std::lock_guard<std::mutex> one_at_a_time(growing_);
    if (IsEmpty()) {
      if (Status status = Grow(); !status.ok()) return status;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    *words = new (free_.back()) HeldCopy();
    free_.pop_back();
    if (is_closed_) Set(&(*words)->released);
    return {};
  }
  // REQUIRES: no stream will look at them any more.
  void Return(HeldCopy* words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(words);  // within its capacity
  }
  void Release(HeldCopy* words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_closed_) Set(&words->released);
  }
  // All streams go on, without results that are not there yet.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    for (HeldCopy* const words : all_) Set(&words->released);
  }

 private:
  static constexpr std::size_t kAtOnce = 64;
  static constexpr std::size_t kBytes = kAtOnce * sizeof(HeldCopy);

  bool IsEmpty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return free_.empty();
  }

  Status Grow() {
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Failure(Code::kResourceExhausted, "no memory for streams that wait");
    (void)::madvise(memory, kBytes, MADV_DONTFORK);
    Status status = ToStatus(cudaHostRegister(memory, kBytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
                             "cudaHostRegister");
    if (!status.ok()) {
      ::munmap(memory, kBytes);
      return status;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.reserve(all_.size() + kAtOnce);
    free_.reserve(all_.size() + kAtOnce);
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      free_.push_back(static_cast<HeldCopy*>(memory) + i);
      all_.push_back(free_.back());
    }
    return {};
  }

  std::mutex growing_;  // before mutex_, which is never held in the driver
  std::mutex mutex_;
  std::vector<HeldCopy*> free_;
  std::vector<HeldCopy*> all_;
  bool is_closed_ = false;
};

}  // namespace ringway::staging
