// How the CUDA library calls CUDA: the driver's functions that the runtime has not, errors as Status, a device made the
// thread's for a while, events, threads.
//
// Threads: any.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>

#include "proto/device/library.h"
#include "proto/device/signals_blocked.h"

namespace ringway::staging {

using device::Failure;
using device::Status;

// What the driver has and the runtime has not.
struct Driver {
  using Context = void*;
  static constexpr unsigned kWaitUntilAtLeast = 0;  // CU_STREAM_WAIT_VALUE_GEQ
  static constexpr int kMemoryType = 2;             // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  static constexpr int kIsManaged = 8;              // CU_POINTER_ATTRIBUTE_IS_MANAGED
  static constexpr int kOrdinal = 9;                // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
  static constexpr unsigned kOnDevice = 2;          // CU_MEMORYTYPE_DEVICE

  int (*get_range)(std::uintptr_t* base, std::size_t* bytes, std::uintptr_t address) = nullptr;
  int (*wait_value)(cudaStream_t stream, std::uintptr_t address, std::uint32_t value, unsigned flags) = nullptr;
  int (*get_attribute)(void* out, int attribute, std::uintptr_t address) = nullptr;
  int (*retain_primary)(Context* context, int ordinal) = nullptr;
  int (*push)(Context context) = nullptr;
  int (*pop)(Context* context) = nullptr;

  static const Driver& Get() {
    static const Driver kDriver;
    return kDriver;
  }
  // Made when first asked for, and never released; null: there is none, which `push` refuses.
  Context PrimaryOf(int ordinal) const {
    static std::mutex mutex;
    static std::map<int, Context> contexts;
    const std::lock_guard<std::mutex> lock(mutex);
    Context& context = contexts[ordinal];
    if (context == nullptr && retain_primary(&context, ordinal) != 0) context = nullptr;
    return context;
  }
  bool is_whole() const {
    return get_range != nullptr && wait_value != nullptr && get_attribute != nullptr && retain_primary != nullptr &&
           push != nullptr && pop != nullptr;
  }

 private:
  Driver() {
    void* const loaded = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (loaded == nullptr) return;
    const auto find = [loaded](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(loaded, name));
    };
    find(get_range, "cuMemGetAddressRange_v2");
    find(wait_value, "cuStreamWaitValue32_v2");
    find(get_attribute, "cuPointerGetAttribute");
    find(retain_primary, "cuDevicePrimaryCtxRetain");
    find(push, "cuCtxPushCurrent_v2");
    find(pop, "cuCtxPopCurrent_v2");
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

// Makes a device's primary context the calling thread's in this object's scope, and leaves a capture that another
// thread of the process is making alone.
class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    const Driver& driver = Driver::Get();
    if (!driver.is_whole()) {
      status_ = Failure(Code::kNotSupported, "the driver (libcuda.so.1) is too old or is not there");
    } else if (const int error = driver.push(driver.PrimaryOf(ordinal)); error != 0) {
      status_ = Failure(Code::kDeviceFailed, "device %d has no usable context (CUresult %d)", ordinal, error);
    }
    if (status_.ok()) (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
  }
  ~OnDevice() {
    if (!status_.ok()) return;
    (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
    Driver::Context popped = nullptr;
    (void)Driver::Get().pop(&popped);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  Status status_;
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
};

class Event {
 public:
  Event() = default;
  ~Event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaError_t Create() {
    return event_ != nullptr ? cudaSuccess
                             : cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync);
  }
  cudaError_t Record(cudaStream_t stream) {
    const cudaError_t made = Create();
    return made != cudaSuccess ? made : cudaEventRecord(event_, stream);
  }
  cudaEvent_t get() const { return event_; }

 private:
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
