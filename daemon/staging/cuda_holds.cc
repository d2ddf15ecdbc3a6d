#include "daemon/staging/cuda_holds.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/staging/held_copy.h"

namespace ringway::staging {
namespace {

using device::CopyJob;

// Between looks at the words; so many that find nothing, and the driver is asked whether the device is lost.
constexpr std::chrono::microseconds kLook{50};
constexpr int kSilentLooks = 20'000;

bool IsSet(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0; }
void Set(std::uint32_t* word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }
std::uintptr_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Pinned words, used again: to get or free pinned memory may wait for what runs on a device.
class Words {
 public:
  // REQUIRES: a device is current.
  Status Take(HeldCopy** words) {
    const std::lock_guard<std::mutex> one_at_a_time(growing_);
    if (IsEmpty()) {
      void* memory = nullptr;
      const cudaError_t got =
          cudaHostAlloc(&memory, kAtOnce * sizeof(HeldCopy), cudaHostAllocPortable | cudaHostAllocMapped);
      if (got != cudaSuccess) return ToStatus(got, "pinning memory (cudaHostAlloc)");
      const std::lock_guard<std::mutex> lock(mutex_);
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        free_.push_back(static_cast<HeldCopy*>(memory) + i);
        all_.push_back(free_.back());
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    *words = new (free_.back()) HeldCopy();
    free_.pop_back();
    return {};
  }
  // REQUIRES: no stream will look at them any more.
  void Return(HeldCopy* words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(words);
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

  bool IsEmpty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return free_.empty();
  }

  std::mutex growing_;  // before mutex_, which is never held in the driver
  std::mutex mutex_;
  std::vector<HeldCopy*> free_;
  std::vector<HeldCopy*> all_;
  bool is_closed_ = false;
};

// One wait of one stream.
struct Wait {
  Wait(Words* pool, std::int32_t ordinal) : words(pool), device(ordinal) {}
  ~Wait() {
    if (copy != nullptr && !is_lost) words->Return(copy);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  Words* const words;
  const std::int32_t device;
  HeldCopy* copy = nullptr;
  Event last;                            // of what was enqueued
  std::shared_ptr<const Wait> follows;   // the first stream's, which has the copy
  std::ptrdiff_t device_minus_host = 0;  // addresses of the pinned memory
  bool is_lost = false;                  // a stream may look at the words for ever
  // Of the watcher, once released.
  std::optional<CopyJob> job;
  bool has_begun = false;
  int silent_looks = 0;
};

Status Enqueue(CUstream_st* stream, std::uint32_t* word, Driver::WordFunction what, const char* name) {
  if (const int error = what(stream, AddressOf(word), 1, 0); error != 0) {
    const Code code = error == Driver::kUnsupported ? Code::kNotSupported : Code::kDeviceFailed;
    return Failure(code, "%s failed (CUresult %d)", name, error);
  }
  return {};
}

Status EnqueueWait(CUstream_st* stream, std::uint32_t* word) {
  return Enqueue(stream, word, Driver::Get().wait_value, "cuStreamWaitValue32");  // >= 1
}

Status EnqueueWrite(CUstream_st* stream, std::uint32_t* word) {
  return Enqueue(stream, word, Driver::Get().write_value, "cuStreamWriteValue32");
}

// Looks at the words of released streams until they have passed, and reports their copies.
class Watcher {
 public:
  Status Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!worker_.is_running()) worker_.Begin([this] { Run(); });
    if (worker_.is_running()) return {};
    return Failure(Code::kResourceExhausted, "no thread for streams that wait");
  }
  void Add(std::shared_ptr<Wait> wait) {
    const std::lock_guard<std::mutex> lock(mutex_);
    added_.push_back(std::move(wait));
    changed_.notify_one();
  }

 private:
  void Run() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto any_added = [this] { return !added_.empty(); };
      if (watched_.empty()) changed_.wait(lock, any_added);
      if (added_.empty()) changed_.wait_for(lock, kLook, any_added);
      watched_.splice(watched_.end(), added_);
    }
    ProcessExit::ParkIfClosed();
    watched_.remove_if([](const std::shared_ptr<Wait>& wait) { return IsOver(wait.get()); });
  }

  static bool IsOver(Wait* wait) {
    if (wait->is_lost) return true;
    const bool has_passed = IsSet(wait->copy->passed);
    if (!wait->has_begun && (has_passed || IsSet(wait->copy->began))) {
      wait->has_begun = true;
      Report(*wait, 0, {});
    }
    if (has_passed) {
      Report(*wait, wait->job ? wait->job->bytes : 0, {});
      return true;
    }
    if (++wait->silent_looks < kSilentLooks) return false;
    wait->silent_looks = 0;
    const Status status = Ask(*wait);
    if (status.ok()) return false;
    wait->is_lost = true;
    Report(*wait, 0, status);
    return true;
  }

  static void Report(const Wait& wait, std::size_t arrived, const Status& status) {
    if (wait.job) wait.job->report(wait.job->context, arrived, status);
  }

  // May be kept waiting by the driver; streams do not wait for it.
  static Status Ask(const Wait& wait) {
    const OnDevice on_device(wait.device);
    if (!on_device.status().ok()) return {};
    const cudaError_t state = cudaEventQuery(wait.last.get());
    if (state == cudaErrorNotReady) (void)cudaGetLastError();
    if (state == cudaErrorNotReady || state == cudaSuccess) return {};
    Status lost = ToStatus(state, "the copy");
    lost.code = Code::kDeviceFailed;
    return lost;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Wait>> added_;
  Worker worker_;
  std::list<std::shared_ptr<Wait>> watched_;  // of the thread
};

class CudaHold final : public device::Hold {
 public:
  CudaHold(std::shared_ptr<Wait> first, Watcher* watcher) : first_(std::move(first)), watcher_(watcher) {}
  ~CudaHold() override {
    if (!is_released_) LetGo();
  }

  void Release(const CopyJob& job) override {
    HeldCopy* const copy = first_->copy;
    copy->to = job.to;
    copy->from = static_cast<const std::byte*>(job.from) + first_->device_minus_host;
    copy->bytes = job.bytes;
    first_->job = job;
    LetGo();
  }

  Status AddStream(device::Stream stream) override {
    const OnDevice on_device(first_->device);
    if (!on_device.status().ok()) return on_device.status();
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    if (Status status = CheckStream(cuda_stream); !status.ok()) return status;
    auto wait = std::make_shared<Wait>(first_->words, first_->device);
    Status status = wait->words->Take(&wait->copy);
    if (status.ok()) status = EnqueueWait(cuda_stream, &first_->copy->passed);
    if (!status.ok()) return status;
    wait->follows = first_;
    status = EnqueueWrite(cuda_stream, &wait->copy->passed);
    if (status.ok()) status = ToStatus(wait->last.Record(cuda_stream, wait->device), "cudaEventRecord");
    wait->is_lost = !status.ok();
    watcher_->Add(wait);
    return status;
  }

 private:
  void LetGo() {
    is_released_ = true;
    watcher_->Add(first_);
    first_->words->Release(first_->copy);
  }

  const std::shared_ptr<Wait> first_;
  Watcher* const watcher_;
  bool is_released_ = false;
};

// All that the stream will need. A failure leaves it waiting, which the caller ends.
Status EnqueueAll(Wait* wait, cudaStream_t stream, const Event* after) {
  Status status;
  if (after != nullptr) status = ToStatus(cudaStreamWaitEvent(stream, after->get(), 0), "cudaStreamWaitEvent");
  if (status.ok()) status = EnqueueWait(stream, &wait->copy->released);
  if (status.ok()) status = EnqueueWrite(stream, &wait->copy->began);
  if (status.ok())
    status = ToStatus(static_cast<cudaError_t>(EnqueueHeldCopy(wait->copy, stream)), "the copy's launch");
  if (status.ok()) status = EnqueueWrite(stream, &wait->copy->passed);
  if (status.ok()) status = ToStatus(wait->last.Record(stream, wait->device), "cudaEventRecord");
  return status;
}

}  // namespace

Status HoldStream(std::int32_t device, device::Stream stream, const Event* after, const void* host,
                  std::shared_ptr<device::Hold>* hold) {
  static Words& words = *new Words;  // never destroyed: their users outlive main
  static Watcher& watcher = *new Watcher;
  if (Driver::Get().wait_value == nullptr || Driver::Get().write_value == nullptr) {
    return Failure(Code::kNotSupported, "the driver has no streams that wait for memory");
  }
  const OnDevice on_device(device);
  if (!on_device.status().ok()) return on_device.status();
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (Status status = CheckStream(cuda_stream); !status.ok()) return status;
  ProcessExit::AtClose([] { words.Close(); });
  auto wait = std::make_shared<Wait>(&words, device);
  void* seen = nullptr;
  Status status = ToStatus(cudaHostGetDevicePointer(&seen, const_cast<void*>(host), 0), "cudaHostGetDevicePointer");
  if (status.ok()) status = ToStatus(static_cast<cudaError_t>(LoadHeldCopy()), "loading the copy's kernel");
  if (status.ok()) status = watcher.Begin();
  if (status.ok()) status = words.Take(&wait->copy);
  if (!status.ok()) return status;
  wait->device_minus_host = static_cast<std::byte*>(seen) - static_cast<const std::byte*>(host);
  auto made = std::make_shared<CudaHold>(wait, &watcher);
  status = EnqueueAll(wait.get(), cuda_stream, after);
  wait->is_lost = !status.ok();
  if (status.ok()) *hold = std::move(made);
  return status;
}

}  // namespace ringway::staging
