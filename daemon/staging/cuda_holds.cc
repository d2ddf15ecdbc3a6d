#include "daemon/staging/cuda_holds.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "daemon/staging/held_copy.h"
#include "daemon/staging/held_words.h"

namespace ringway::staging {
namespace {

using device::CopyJob;

// Between looks at the words; so many that find nothing, and the driver is asked whether the device is lost.
constexpr std::chrono::microseconds kLook{50};
constexpr int kSilentLooks = 20'000;

std::uint64_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

HeldWords& TheWords() {
  static HeldWords& words = *new HeldWords;  // never destroyed, as all here: its users outlive main
  return words;
}

// One wait of one stream.
struct Wait {
  Wait(std::int32_t ordinal, device::Stream waiting) : device(ordinal), stream(waiting) {}
  ~Wait() {
    if (copy != nullptr && !keeps_words && !is_lost) TheWords().Return(copy);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  const std::int32_t device;
  const device::Stream stream;
  HeldCopy* copy = nullptr;
  Event last;                             // of what was enqueued
  std::shared_ptr<const Wait> follows;    // the first stream's, which has the copy
  std::ptrdiff_t device_minus_host = 0;   // addresses of the pinned memory
  std::atomic<bool> keeps_words = false;  // a stream may look at them for ever
  // Used by the watcher, once released.
  std::optional<CopyJob> job;
  bool has_begun = false;
  int silent_looks = 0;
  // Used by the asker.
  std::atomic<bool> is_asked = false;
  std::atomic<bool> is_lost = false;  // the device is
  Status lost;                        // why; before is_lost
};

using Waits = std::list<std::shared_ptr<Wait>>;

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

// A thread that works off a list.
class Worklist {
 public:
  template <typename Work>
  Status Begin(Work work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!worker_.is_running()) worker_.Begin(work);
    if (worker_.is_running()) return {};
    return Failure(Code::kResourceExhausted, "no thread for streams that wait");
  }
  // Takes the nodes, so that nothing can fail.
  void Add(Waits* waits) {
    const std::lock_guard<std::mutex> lock(mutex_);
    added_.splice(added_.end(), *waits);
    changed_.notify_one();
  }
  // Called by the thread: moves additions to `to`. Waits for one while `to` is empty, else at most for one look.
  void Take(Waits* to) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto any_added = [this] { return !added_.empty(); };
    if (to->empty()) changed_.wait(lock, any_added);
    if (added_.empty()) changed_.wait_for(lock, kLook, any_added);
    to->splice(to->end(), added_);
    lock.unlock();
    ProcessExit::ParkIfClosed();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Waits added_;
  Worker worker_;
};

// Asks the driver whether the devices of silent streams are lost.
class Asker {
 public:
  Status Begin() {
    return list_.Begin([this] { Run(); });
  }
  void Add(Waits* waits) { list_.Add(waits); }

 private:
  void Run() {
    list_.Take(&asked_);
    for (const std::shared_ptr<Wait>& wait : asked_) Ask(wait.get());
    asked_.clear();
  }
  static void Ask(Wait* wait) {
    const OnDevice on_device(wait->device);
    const cudaError_t state = on_device.status().ok() ? cudaEventQuery(wait->last.get()) : cudaErrorNotReady;
    if (state == cudaErrorNotReady) (void)cudaGetLastError();
    if (state != cudaErrorNotReady && state != cudaSuccess) {
      wait->lost = ToStatus(state, "the copy");
      wait->lost.code = Code::kDeviceFailed;
      wait->is_lost = true;
    }
    wait->is_asked = false;
  }

  Worklist list_;
  Waits asked_;
};

// Looks at the words of released streams until they have passed, and reports their copies.
class Watcher {
 public:
  Status Begin() {
    const Status status = asker_.Begin();
    return status.ok() ? list_.Begin([this] { Run(); }) : status;
  }
  void Add(Waits* waits) { list_.Add(waits); }

 private:
  void Run() {
    list_.Take(&watched_);
    watched_.remove_if([this](const std::shared_ptr<Wait>& wait) { return IsOver(wait); });
  }

  bool IsOver(const std::shared_ptr<Wait>& wait) {
    const bool has_passed = IsSet(wait->copy->passed);
    if (!wait->has_begun && (has_passed || IsSet(wait->copy->began))) {
      wait->has_begun = true;
      Report(*wait, 0, {});
    }
    if (has_passed) {
      Report(*wait, wait->job ? wait->job->bytes : 0, {});
      return true;
    }
    if (wait->is_lost) {
      Report(*wait, 0, wait->lost);
      return true;
    }
    if (++wait->silent_looks >= kSilentLooks && !wait->is_asked.exchange(true)) {
      wait->silent_looks = 0;
      Waits asked{wait};
      asker_.Add(&asked);
    }
    return false;
  }

  static void Report(const Wait& wait, std::size_t arrived, const Status& status) {
    if (wait.job) wait.job->report(wait.job->context, arrived, status);
  }

  Worklist list_;
  Waits watched_;
  Asker asker_;
};

Watcher& TheWatcher() {
  static Watcher& watcher = *new Watcher;
  return watcher;
}

Status NoMoreMayWait() { return Failure(Code::kNotSupported, "too many streams wait, or memory is to be unpinned"); }

// Returns whether the stream may wait; then it is to leave TheHeldStreams. Not each thread's own default stream: those
// are many streams under one handle.
bool Enter(std::int32_t device, device::Stream stream) {
  return static_cast<cudaStream_t>(stream) != cudaStreamPerThread && TheHeldStreams().Enter(device, stream);
}

class CudaHold final : public device::Hold {
 public:
  explicit CudaHold(std::shared_ptr<Wait> first) : first_(std::move(first)), waits_{first_} {}
  ~CudaHold() override { LetGo(); }
  // Returns whether the stream may wait; then it is to be released.
  bool Enter() {
    is_released_ = !staging::Enter(first_->device, first_->stream);
    return !is_released_;
  }
  // The stream's commands could not all be enqueued: lets it go on with those that were.
  void GiveUp() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_released_ = true;
    TheWords().Release(first_->copy);
    TheHeldStreams().Leave(first_->device, first_->stream);
  }

  void Release(const CopyJob& job) override {
    HeldCopy* const copy = first_->copy;
    copy->to = job.to;
    copy->from = static_cast<const std::byte*>(job.from) + first_->device_minus_host;
    copy->bytes = job.bytes;
    first_->job = job;
    LetGo();
  }
  void GoOn() override { LetGo(); }

  Status AddStream(device::Stream stream) override {
    const OnDevice on_device(first_->device);
    if (!on_device.status().ok()) return on_device.status();
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    if (Status status = CheckStream(cuda_stream); !status.ok()) return status;
    Waits added{std::make_shared<Wait>(first_->device, stream)};
    Wait* const wait = added.front().get();
    wait->follows = first_;
    if (Status status = TheWords().Take(&wait->copy); !status.ok()) return status;
    if (!staging::Enter(wait->device, stream)) return NoMoreMayWait();
    Status status = EnqueueWait(cuda_stream, &first_->copy->passed);
    const bool waits = status.ok();
    if (status.ok()) status = EnqueueWrite(cuda_stream, &wait->copy->passed);
    if (status.ok()) status = ToStatus(wait->last.Record(cuda_stream, wait->device), "cudaEventRecord");
    if (!status.ok() && waits) first_->keeps_words = wait->keeps_words = true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status.ok() && !is_released_) {
      waits_.splice(waits_.end(), added);
      return {};
    }
    TheHeldStreams().Leave(wait->device, stream);
    if (status.ok()) TheWatcher().Add(&added);
    return status;
  }

 private:
  void LetGo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(is_released_, true)) return;
    TheWords().Release(first_->copy);
    for (const std::shared_ptr<Wait>& wait : waits_) TheHeldStreams().Leave(wait->device, wait->stream);
    TheWatcher().Add(&waits_);
  }

  const std::shared_ptr<Wait> first_;
  std::mutex mutex_;
  Waits waits_;              // what the watcher gets when it is released
  bool is_released_ = true;  // or never held
};

// All that the stream will need; `waits`: whether it waits by now.
Status EnqueueAll(Wait* wait, cudaStream_t stream, const Event* after, bool* waits) {
  Status status;
  if (after != nullptr) status = ToStatus(cudaStreamWaitEvent(stream, after->get(), 0), "cudaStreamWaitEvent");
  if (status.ok()) status = EnqueueWait(stream, &wait->copy->released);
  *waits = status.ok();
  if (status.ok()) status = EnqueueWrite(stream, &wait->copy->began);
  if (status.ok())
    status = ToStatus(static_cast<cudaError_t>(EnqueueHeldCopy(wait->copy, stream)), "the copy's launch");
  if (status.ok()) status = EnqueueWrite(stream, &wait->copy->passed);
  if (status.ok()) status = ToStatus(wait->last.Record(stream, wait->device), "cudaEventRecord");
  return status;
}

// Returns a quarter of the queues that kernels share.
std::size_t HeldMost() {
  constexpr std::size_t kUnlessSet = 8;
  constexpr std::size_t kQueuesMost = 32;
  std::size_t queues = kUnlessSet;
  if (const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"); set != nullptr) {
    (void)std::from_chars(set, set + std::strlen(set), queues);
  }
  return std::min(queues, kQueuesMost) / 4;
}

// Does all that may fail before anything is enqueued.
Status Prepare(Wait* wait, const void* host) {
  void* seen = nullptr;
  Status status = ToStatus(cudaHostGetDevicePointer(&seen, const_cast<void*>(host), 0), "cudaHostGetDevicePointer");
  wait->device_minus_host = static_cast<std::byte*>(seen) - static_cast<const std::byte*>(host);
  if (status.ok()) status = ToStatus(static_cast<cudaError_t>(LoadHeldCopy()), "loading the copy's kernel");
  if (status.ok()) status = TheWatcher().Begin();
  return status.ok() ? TheWords().Take(&wait->copy) : status;
}

}  // namespace

HeldStreams& TheHeldStreams() {
  static HeldStreams& streams = *new HeldStreams(HeldMost());
  return streams;
}

Status HoldStream(std::int32_t device, device::Stream stream, const Event* after, const void* host,
                  std::shared_ptr<device::Hold>* hold) {
  if (Driver::Get().wait_value == nullptr || Driver::Get().write_value == nullptr) {
    return Failure(Code::kNotSupported, "the driver has no streams that wait for memory");
  }
  const OnDevice on_device(device);
  if (!on_device.status().ok()) return on_device.status();
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (Status status = CheckStream(cuda_stream); !status.ok()) return status;
  ProcessExit::AtClose([] { TheWords().Close(); });
  auto wait = std::make_shared<Wait>(device, stream);
  Status status = Prepare(wait.get(), host);
  bool waits = false;
  if (status.ok()) {
    auto made = std::make_shared<CudaHold>(wait);
    if (!made->Enter()) return NoMoreMayWait();
    status = EnqueueAll(wait.get(), cuda_stream, after, &waits);
    if (status.ok()) {
      *hold = std::move(made);
      return status;
    }
    wait->keeps_words = waits;
    made->GiveUp();
  }
  if (!waits) status.code = Code::kNotSupported;  // nothing has happened: the caller can wait
  return status;
}

}  // namespace ringway::staging
