// Wraps CUDA for the CUDA library: the driver's functions that the runtime lacks, errors as Status, a scope that makes
// a device current, events, threads.
//
// Threads: any.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "proto/device/library.h"
#include "proto/device/signals_blocked.h"

namespace ringway::staging {

using device::Failure;
using device::Status;

// The driver's functions that the runtime lacks.
struct Driver {
  using Context = void*;
  static constexpr int kMemoryType = 2;     // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  static constexpr int kIsManaged = 8;      // CU_POINTER_ATTRIBUTE_IS_MANAGED
  static constexpr int kOrdinal = 9;        // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
  static constexpr unsigned kOnDevice = 2;  // CU_MEMORYTYPE_DEVICE
  static constexpr int kUnsupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  using WordFunction = int (*)(CUstream_st* stream, std::uint64_t address, std::uint32_t value, unsigned flags);

  int (*init)(unsigned flags) = nullptr;
  int (*get_range)(std::uintptr_t* base, std::size_t* bytes, std::uintptr_t address) = nullptr;
  int (*get_attribute)(void* out, int attribute, std::uintptr_t address) = nullptr;
  int (*retain_primary)(Context* context, int ordinal) = nullptr;
  int (*push)(Context context) = nullptr;
  int (*pop)(Context* context) = nullptr;
  // Null where the driver has them not: until the word is >= value (flags 0), and to write it.
  WordFunction wait_value = nullptr;
  WordFunction write_value = nullptr;

  static const Driver& Get() {
    static const Driver kDriver;
    return kDriver;
  }
  // Made when first asked for, and never released; null: there is none, which `push` refuses.
  Context PrimaryOf(int ordinal) const {
    static std::mutex mutex;
    static auto& contexts = *new std::map<int, Context>;  // for threads that outlive main
    const std::lock_guard<std::mutex> lock(mutex);
    Context& context = contexts[ordinal];
    if (context == nullptr && retain_primary(&context, ordinal) != 0) context = nullptr;
    return context;
  }
  // Initialises it if nobody has; 0: it can be used. Only for who has or wants device memory: forked children of a
  // process that has done so cannot use CUDA.
  int Init() const {
    static const int kOutcome = init(0);
    return kOutcome;
  }
  bool is_whole() const {
    return init != nullptr && get_range != nullptr && get_attribute != nullptr && retain_primary != nullptr &&
           push != nullptr && pop != nullptr;
  }

 private:
  Driver() {
    // A library that was named may be here before the process has loaded the driver.
    void* const loaded = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) return;
    const auto find = [loaded](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(loaded, name));
    };
    find(init, "cuInit");
    find(get_range, "cuMemGetAddressRange_v2");
    find(get_attribute, "cuPointerGetAttribute");
    find(retain_primary, "cuDevicePrimaryCtxRetain");
    find(push, "cuCtxPushCurrent_v2");
    find(pop, "cuCtxPopCurrent_v2");
    find(wait_value, "cuStreamWaitValue32_v2");
    find(write_value, "cuStreamWriteValue32_v2");
  }
};

inline bool IsWithoutDevice(cudaError_t error) {
  return error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary ||
         error == cudaErrorSystemDriverMismatch;
}

inline bool IsCapture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

inline Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // it is reported here
  Code code = Code::kDeviceFailed;
  if (error == cudaErrorMemoryAllocation) code = Code::kResourceExhausted;
  if (error == cudaErrorInvalidValue || error == cudaErrorInvalidResourceHandle || error == cudaErrorInvalidDevice ||
      IsCapture(error)) {
    code = Code::kInvalidArgument;
  }
  if (IsWithoutDevice(error)) code = Code::kNotSupported;
  return Failure(code, "%s failed: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

// The process's exit: before driver and runtime destroy what they have, nobody is in them, and nobody enters any more.
class ProcessExit {
 public:
  // Returns false once the process exits. REQUIRES: the driver is initialised, whose own exit then comes later.
  static bool Enter() {
    static const int kRegistered = (process_ = ::getpid(), std::atexit(Close));
    (void)kRegistered;
    ++inside_;
    if (!is_closed_) return true;
    --inside_;
    return false;
  }
  static void Leave() { --inside_; }
  // Sets the function with which the exit begins.
  static void AtClose(void (*function)()) { at_close_ = function; }
  // Ends the calling thread's work: whom it would report to is being destroyed, too.
  static void ParkIfClosed() {
    while (is_closed_) std::this_thread::sleep_for(std::chrono::hours(1));
  }

 private:
  static void Close() {
    constexpr int kLooks = 1000;         // a device that hangs may keep one inside for ever
    if (process_ != ::getpid()) return;  // a forked child's exit is nothing to the parent's streams
    is_closed_ = true;
    if (void (*const function)() = at_close_; function != nullptr) function();
    for (int i = 0; i < kLooks && inside_ > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  static inline ::pid_t process_ = 0;
  static inline std::atomic<void (*)()> at_close_ = nullptr;
  static inline std::atomic<int> inside_ = 0;
  static inline std::atomic<bool> is_closed_ = false;
};

// Makes a device's primary context the calling thread's in this object's scope, and leaves a capture that another
// thread of the process is making alone.
class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    const Driver& driver = Driver::Get();
    if (!driver.is_whole()) {
      status_ = Failure(Code::kNotSupported, "the driver (libcuda.so.1) is too old or is not there");
    } else if (const int refused = driver.Init(); refused != 0) {
      status_ = Failure(Code::kNotSupported, "the driver cannot be used here (cuInit: CUresult %d)", refused);
    } else if (!ProcessExit::Enter()) {
      status_ = Failure(Code::kDeviceFailed, "the process exits");
    } else if (const int error = driver.push(driver.PrimaryOf(ordinal)); error != 0) {
      status_ = Failure(Code::kDeviceFailed, "device %d has no usable context (CUresult %d)", ordinal, error);
      ProcessExit::Leave();
    }
    if (status_.ok()) (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
  }
  ~OnDevice() {
    if (!status_.ok()) return;
    (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
    Driver::Context popped = nullptr;
    (void)Driver::Get().pop(&popped);
    ProcessExit::Leave();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  Status status_;
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
};

// The process's events that nobody uses, to be used again: to destroy one enters the driver, which nobody may whom a
// stream waits for.
class FreeEvents {
 public:
  // Null: there is none.
  static cudaEvent_t Take(int ordinal) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<cudaEvent_t>& free = all_[ordinal];
    if (free.empty()) return nullptr;
    cudaEvent_t const event = free.back();
    free.pop_back();
    return event;
  }
  static void Return(int ordinal, cudaEvent_t event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_[ordinal].push_back(event);
  }

 private:
  static inline std::mutex& mutex_ = *new std::mutex;  // for threads that outlive main
  static inline std::map<int, std::vector<cudaEvent_t>>& all_ = *new std::map<int, std::vector<cudaEvent_t>>;
};

// An event of one device. Its destructor does not call the driver.
class Event {
 public:
  Event() = default;
  ~Event() {
    if (event_ != nullptr) FreeEvents::Return(ordinal_, event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // REQUIRES: the device is current.
  cudaError_t Create(int ordinal) {
    if (event_ == nullptr) event_ = FreeEvents::Take(ordinal);
    ordinal_ = ordinal;
    return event_ != nullptr ? cudaSuccess
                             : cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync);
  }
  cudaError_t Record(cudaStream_t stream, int ordinal) {
    const cudaError_t made = Create(ordinal);
    const cudaError_t recorded = made != cudaSuccess ? made : cudaEventRecord(event_, stream);
    if (recorded != cudaSuccess) event_ = nullptr;  // of no use any more, if its context was reset
    return recorded;
  }
  cudaEvent_t get() const { return event_; }

 private:
  int ordinal_ = 0;
  cudaEvent_t event_ = nullptr;
};

// A graph that is being captured would replay the operation's commands, not the operation.
inline Status CheckStream(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (const Status status = ToStatus(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing"); !status.ok()) {
    return status;
  }
  if (capture == cudaStreamCaptureStatusNone) return {};
  return Failure(Code::kInvalidArgument, "the stream is being captured; operations cannot be part of a graph");
}

// A thread that works off what it is given, until the process ends.
class Worker {
 public:
  // `work` runs on the thread, again and again.
  template <typename Work>
  void Begin(Work work) {
    const device::SignalsBlocked blocked;
    try {
      std::thread([work] {
        for (;;) work();
      }).detach();
      is_running_ = true;
    } catch (const std::exception&) {  // said by is_running
    }
  }
  bool is_running() const { return is_running_; }

 private:
  bool is_running_ = false;
};

}  // namespace ringway::staging
