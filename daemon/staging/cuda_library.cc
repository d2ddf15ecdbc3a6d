// The device library of CUDA (proto/device/library.h): copies by the runtime API, contexts and pointers by the
// driver's. Built as a shared object of its own: the process that loads it has a driver, and contexts of its own. This
// works in each device's primary context, which it makes current for its own calls only.
//
// Copies of a device and direction belong to one thread: it waits until the marked work is done, enqueues the slices
// into its one stream, a few at a time with an event behind each, looks at the events in order and reports. So Start
// only queues, no copy waits inside the stream, and a lost device shows where a callback in the stream would never run.
//
// Results that streams wait for are copied by those streams (cuda_holds.h).
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/staging/cuda_calls.h"
#include "daemon/staging/cuda_holds.h"
#include "daemon/staging/cuda_unpinner.h"
#include "proto/device/library.h"
#include "proto/device/slices.h"

namespace ringway::staging {
namespace {

using device::CopyJob;
using device::Direction;

struct CudaMark : device::Mark {
  Event event;
};

// The copies of one device and direction.
class CopyLane {
 public:
  explicit CopyLane(int ordinal) : ordinal_(ordinal) {}

  Status Start(const CopyJob& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!worker_.is_running()) worker_.Begin([this] { Run(); });
    if (!worker_.is_running()) return Failure(Code::kResourceExhausted, "no thread for copies");
    added_.push_back({.job = job});
    changed_.notify_one();
    return {};
  }

 private:
  static constexpr std::size_t kSlicesInFlight = 4;
  // Between looks at marks and slices; none between the first that find nothing, of 1 to 2 us each: a small copy takes
  // 10 us.
  static constexpr std::chrono::microseconds kLook{50};
  static constexpr unsigned kSpins = 64;

  struct Slice {
    std::size_t end = 0;
    Event* event = nullptr;
  };
  struct Copy {
    CopyJob job;
    std::size_t enqueued = 0;
    std::deque<Slice> slices = {};  // in flight
  };

  // One round of the thread.
  void Run() {
    TakeAdded();
    const OnDevice on_device(ordinal_);
    if (!on_device.status().ok()) ProcessExit::ParkIfClosed();
    LookAtMarks(on_device.status());
    moves_ = !ready_.empty() && CopySome(&ready_.front(), on_device.status());
  }

  void TakeAdded() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto any_added = [this] { return !added_.empty(); };
    if (waiting_.empty() && ready_.empty()) changed_.wait(lock, any_added);
    spins_ = moves_ || any_added() ? 0 : spins_ + 1;
    if (spins_ > kSpins) changed_.wait_for(lock, kLook, any_added);
    std::move(added_.begin(), added_.end(), std::back_inserter(waiting_));
    added_.clear();
  }

  // Marked work that is done, or failed, makes its copy ready; the copy then fails, too.
  void LookAtMarks(const Status& usable) {
    for (auto copy = waiting_.begin(); copy != waiting_.end();) {
      const auto* const mark = static_cast<const CudaMark*>(copy->job.after.get());
      const bool is_done = mark == nullptr || !usable.ok() || cudaEventQuery(mark->event.get()) != cudaErrorNotReady;
      if (!is_done) {
        (void)cudaGetLastError();
        ++copy;
        continue;
      }
      copy->job.report(copy->job.context, 0, {});
      ready_.push_back(std::move(*copy));
      copy = waiting_.erase(copy);
    }
  }

  // Returns whether it reported anything. Never blocks on the device: one that hangs must not silence the copies
  // behind.
  bool CopySome(Copy* copy, const Status& usable) {
    Status status = usable;
    while (status.ok() && copy->enqueued < copy->job.bytes && copy->slices.size() < kSlicesInFlight) {
      status = Enqueue(copy);
    }
    std::size_t arrived = 0;
    if (!copy->slices.empty()) {
      const cudaError_t state = cudaEventQuery(copy->slices.front().event->get());
      if (state == cudaErrorNotReady && status.ok()) {
        (void)cudaGetLastError();
        return false;
      }
      const Status copied = ToStatus(state, "the copy");
      if (status.ok()) status = copied;
      arrived = copy->slices.front().end;
      copy->slices.pop_front();
    }
    const bool is_over = !status.ok() || arrived == copy->job.bytes;
    // Nothing may still be writing once the copy is reported to be over.
    if (!status.ok() && stream_ != nullptr && cudaStreamSynchronize(stream_) != cudaSuccess) (void)cudaGetLastError();
    if (!status.ok()) status.code = Code::kDeviceFailed;
    copy->job.report(copy->job.context, arrived, status);
    if (is_over) ready_.pop_front();
    return true;
  }

  // Makes what copies need of the driver.
  Status Prepare() {
    if (stream_ == nullptr) {
      int least = 0;
      int greatest = 0;
      (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
      const cudaError_t made = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
      if (made != cudaSuccess) return ToStatus(made, "cudaStreamCreate");
    }
    for (Event& event : events_) {
      if (const Status status = ToStatus(event.Create(ordinal_), "cudaEventCreate"); !status.ok()) return status;
    }
    return {};
  }

  Status Enqueue(Copy* copy) {
    if (const Status status = Prepare(); !status.ok()) return status;
    const std::size_t begin = copy->enqueued;
    const Slice slice{.end = device::SliceEnd(begin, copy->job.bytes), .event = &events_[next_event_]};
    next_event_ = (next_event_ + 1) % events_.size();
    void* const to = static_cast<std::byte*>(copy->job.to) + begin;
    const void* const from = static_cast<const std::byte*>(copy->job.from) + begin;
    const cudaError_t copies = cudaMemcpyAsync(to, from, slice.end - begin, cudaMemcpyDefault, stream_);
    if (copies != cudaSuccess) return ToStatus(copies, "cudaMemcpyAsync");
    const Status recorded = ToStatus(slice.event->Record(stream_, ordinal_), "cudaEventRecord");
    copy->enqueued = slice.end;
    if (recorded.ok()) copy->slices.push_back(slice);
    return recorded;
  }

  const int ordinal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> added_;
  Worker worker_;
  // Used by the thread only.
  std::list<Copy> waiting_;  // for their marks
  std::list<Copy> ready_;
  bool moves_ = false;  // the last round reported something
  unsigned spins_ = 0;  // rounds since then
  std::size_t next_event_ = 0;
  cudaStream_t stream_ = nullptr;
  std::array<Event, kSlicesInFlight> events_;  // of the slices in flight, in turns: one copy's at a time
};

class CudaLibrary final : public device::Library {
 public:
  const char* name() const override { return "cuda"; }
  std::chrono::milliseconds patience() const override { return std::chrono::minutes(1); }

  // Asks the driver only, which creates no context. What it does not know is the host's.
  Status Locate(const void* memory, std::size_t bytes, device::Location* location) override {
    const Driver& driver = Driver::Get();
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    unsigned type = 0;
    unsigned managed = 0;
    int ordinal = 0;
    if (!driver.is_whole() || driver.get_attribute(&type, Driver::kMemoryType, address) != 0) return {};
    (void)driver.get_attribute(&managed, Driver::kIsManaged, address);
    if (type != Driver::kOnDevice && managed == 0) return {};
    if (const int error = driver.get_attribute(&ordinal, Driver::kOrdinal, address); error != 0) {
      return Failure(Code::kDeviceFailed, "the driver does not say on which device it is (CUresult %d)", error);
    }
    *location = {.on_device = true, .device = ordinal};
    return CheckEnd(address, bytes, *location);
  }

  Status Pin(std::int32_t device, void* host, std::size_t bytes) override {
    const OnDevice on_device(device);
    if (!on_device.status().ok()) return on_device.status();
    return ToStatus(cudaHostRegister(host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
                    "pinning memory (cudaHostRegister)");
  }
  void UnpinLater(std::int32_t device, void* host, void (*then)(void*), void* context) override {
    unpinner_.Add({.device = device, .host = host, .then = then, .context = context});
  }

  Status MarkStream(std::int32_t device, device::Stream stream, std::shared_ptr<device::Mark>* mark) override {
    const OnDevice on_device(device);
    if (!on_device.status().ok()) return on_device.status();
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    if (const Status status = CheckStream(cuda_stream); !status.ok()) return status;
    auto made = std::make_shared<CudaMark>();
    const Status status = ToStatus(made->event.Record(cuda_stream, device), "cudaEventRecord");
    if (status.ok()) *mark = std::move(made);
    return status;
  }

  Status HoldStream(std::int32_t device, device::Stream stream, const std::shared_ptr<const device::Mark>& after,
                    const void* host, std::shared_ptr<device::Hold>* hold) override {
    const auto* const mark = static_cast<const CudaMark*>(after.get());
    return staging::HoldStream(device, stream, mark != nullptr ? &mark->event : nullptr, host, hold);
  }

  Status Start(const CopyJob& job) override {
    auto& lanes = job.direction == Direction::kToHost ? to_host_ : to_device_;
    return Of(lanes, job.device)->Start(job);
  }

  Status Allocate(std::int32_t device, std::size_t bytes, void** memory) override {
    const OnDevice on_device(device);
    if (!on_device.status().ok()) return on_device.status();
    return ToStatus(cudaMalloc(memory, bytes), "cudaMalloc");
  }
  void Free(void* memory) override {
    if (cudaFree(memory) != cudaSuccess) (void)cudaGetLastError();
  }
  Status CopyNow(void* to, const void* from, std::size_t bytes) override {
    return ToStatus(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }

 private:
  // A range may go on in the next allocation of the driver, as those that grow piece by piece do.
  static Status CheckEnd(std::uintptr_t begin, std::size_t bytes, const device::Location& location) {
    const OnDevice on_device(location.device);
    if (!on_device.status().ok()) return on_device.status();
    std::size_t known = 0;
    while (known < bytes) {
      std::uintptr_t base = 0;
      std::size_t size = 0;
      if (Driver::Get().get_range(&base, &size, begin + known) != 0 || base + size <= begin + known) {
        return Failure(Code::kInvalidArgument, "%zu bytes are needed; the memory on device %d ends after %zu", bytes,
                       location.device, known);
      }
      known = base + size - begin;
    }
    return {};
  }

  using ByDevice = std::map<std::int32_t, std::unique_ptr<CopyLane>>;

  CopyLane* Of(ByDevice& all, std::int32_t device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& lane = all[device];
    if (lane == nullptr) lane = std::make_unique<CopyLane>(device);
    return lane.get();
  }

  std::mutex mutex_;
  ByDevice to_host_;
  ByDevice to_device_;
  Unpinner unpinner_{&TheHeldStreams()};
};

}  // namespace
}  // namespace ringway::staging

extern "C" __attribute__((visibility("default"))) ringway::device::Library* RingwayDeviceLibrary(
    std::uint32_t version) {
  static auto* const kLibrary = new ringway::staging::CudaLibrary;  // never destroyed: its threads outlive main
  return version == ringway::device::kLibraryVersion ? kLibrary : nullptr;
}
