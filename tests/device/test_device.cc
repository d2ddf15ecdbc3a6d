#include "tests/device/test_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "proto/device/slices.h"

namespace ringway::testing {
namespace {

using device::CopyJob;
using device::Direction;
using device::Failure;
using device::Location;
using device::Status;

struct TestMark : device::Mark {
  std::shared_ptr<Gate> reached = std::make_shared<Gate>();
};

struct Allocation {
  std::int32_t device = 0;
  std::size_t bytes = 0;   // as asked for
  std::size_t mapped = 0;  // whole pages
  std::byte* contents = nullptr;
  std::size_t copies = 0;  // in flight
};

std::size_t WholePages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

std::byte* Map(std::size_t bytes, int protection) {
  void* const memory = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

Faults FaultsOfEnvironment() {
  Faults faults;
  const char* const text = std::getenv("RINGWAY_TEST_DEVICE");
  if (text == nullptr) return faults;
  const std::map<std::string, std::uint32_t*> keys = {
      {"delay_us", &faults.delay_us},
      {"fail_one_in", &faults.fail_one_in},
      {"hang_one_in", &faults.hang_one_in},
      {"refuse_one_in", &faults.refuse_one_in},
      {"patience_ms", &faults.patience_ms},
      {"no_memory_one_in", &faults.no_memory_one_in},
      {"no_hold_one_in", &faults.no_hold_one_in},
      {"seed", &faults.seed},
  };
  const std::string all = text;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find(',', begin), all.size());
    const std::string one = all.substr(begin, end - begin);
    const auto key = keys.find(one.substr(0, one.find('=')));
    if (key == keys.end() || one.find('=') == std::string::npos) {
      std::fprintf(stderr, "RINGWAY_TEST_DEVICE: what is %s?\n", one.c_str());
      std::abort();
    }
    *key->second = static_cast<std::uint32_t>(std::stoul(one.substr(one.find('=') + 1)));
    begin = end + 1;
  }
  return faults;
}

class Device final : public TestDevice {
 public:
  Device() {
    SetFaults(FaultsOfEnvironment());
    for (std::size_t i = 0; i < kCopyStreams; ++i) copy_streams_.at(i) = std::make_unique<TestStream>();
  }

  const char* name() const override { return "test"; }
  std::chrono::milliseconds patience() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::chrono::milliseconds(faults_.patience_ms);
  }

  Status Locate(const void* memory, std::size_t bytes, Location* location) override;
  Status Pin(std::int32_t device, void* host, std::size_t bytes) override;
  void UnpinLater(std::int32_t device, void* host, void (*then)(void*), void* context) override;
  Status MarkStream(std::int32_t device, device::Stream stream, std::shared_ptr<device::Mark>* mark) override;
  Status HoldStream(std::int32_t device, device::Stream stream, const std::shared_ptr<const device::Mark>& after,
                    const void* host, std::shared_ptr<device::Hold>* hold) override;
  Status Start(const CopyJob& job) override;
  Status Allocate(std::int32_t device, std::size_t bytes, void** memory) override;
  void Free(void* memory) override;
  Status CopyNow(void* to, const void* from, std::size_t bytes) override;

  void SetFaults(const Faults& faults) override;
  void Reset() override;
  void Lose() override;
  void SynchronizeInDriver(TestStream* stream) override;
  int drivers_queue() const override { return drivers_queue_; }
  bool IsDriverKept() const override { return is_driver_kept_; }
  std::byte* Contents(void* memory) override;
  std::size_t pinned_bytes() const override;

  using Lock = std::lock_guard<std::mutex>;
  // Counts the copy as one in flight, until CarryOut.
  Status Admit(const CopyJob& job);
  // Copies all slices of an admitted job, each by the driver, or by a stream that has all it needs.
  enum class By { kDriver, kStream };
  void CarryOut(const CopyJob& job, By by);
  void EnterDriver() {
    ++drivers_queue_;
    const std::lock_guard<std::mutex> lock(driver_);
    --drivers_queue_;
  }
  // Returns Ok if a stream may wait.
  Status MayHold() {
    EnterDriver();
    const Lock lock(mutex_);
    if (!OneIn(lock, faults_.no_hold_one_in)) return {};
    return Failure(Code::kNotSupported, "no stream may wait (injected)");
  }
  TestStream* StreamOf(device::Stream stream) {
    return stream == nullptr ? &default_stream_ : static_cast<TestStream*>(stream);
  }

 private:
  static constexpr std::size_t kCopyStreams = 2 * static_cast<std::size_t>(kCount);
  enum class Fate { kGood, kFails, kHangs };

  bool OneIn(const Lock&, std::uint32_t n) { return n != 0 && dice_() % n == 0; }
  // The allocation that holds `memory`, or null.
  Allocation* Find(const Lock&, const void* memory, std::size_t* offset);
  bool IsPinned(const Lock&, const void* host, std::size_t bytes) const;
  std::byte* Reach(const Lock& lock, const void* memory, std::size_t bytes);
  // Carried out on the copy stream. Returns whether the copy goes on.
  bool CopySlice(const CopyJob& job, std::size_t begin, std::size_t end);
  Fate Decide(std::chrono::microseconds* delay, std::shared_ptr<Gate>* hung);

  std::mutex driver_;
  std::atomic<int> drivers_queue_ = 0;
  std::atomic<bool> is_driver_kept_ = false;
  mutable std::mutex mutex_;
  std::condition_variable copied_;
  Faults faults_;
  std::mt19937 dice_;
  bool is_lost_ = false;
  std::shared_ptr<Gate> hung_ = std::make_shared<Gate>();
  std::map<std::uintptr_t, Allocation> allocations_;  // by the address that the host sees
  std::map<std::uintptr_t, std::size_t> pinned_;
  TestStream default_stream_;
  TestStream helper_;
  std::array<std::unique_ptr<TestStream>, kCopyStreams> copy_streams_;  // two a device
};

std::uintptr_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

Allocation* Device::Find(const Lock&, const void* memory, std::size_t* offset) {
  const auto after = allocations_.upper_bound(AddressOf(memory));
  if (after == allocations_.begin()) return nullptr;
  auto& [begin, allocation] = *std::prev(after);
  *offset = AddressOf(memory) - begin;
  return *offset < allocation.bytes ? &allocation : nullptr;
}

bool Device::IsPinned(const Lock&, const void* host, std::size_t bytes) const {
  const auto after = pinned_.upper_bound(AddressOf(host));
  if (after == pinned_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return AddressOf(host) + bytes <= begin + size;
}

Status Device::Locate(const void* memory, std::size_t bytes, Location* location) {
  const Lock lock(mutex_);
  std::size_t offset = 0;
  const Allocation* const found = Find(lock, memory, &offset);
  if (found == nullptr) return {};
  if (bytes > found->bytes - offset) {
    return Failure(Code::kInvalidArgument, "%zu bytes are needed; the memory on device %d ends after %zu", bytes,
                   found->device, found->bytes - offset);
  }
  *location = {.on_device = true, .device = found->device};
  return {};
}

Status Device::Pin(std::int32_t /*device*/, void* host, std::size_t bytes) {
  EnterDriver();
  const Lock lock(mutex_);
  if (OneIn(lock, faults_.no_memory_one_in)) {
    return Failure(Code::kResourceExhausted, "pinning %zu bytes failed: out of memory (injected)", bytes);
  }
  if (AddressOf(host) % 4096 != 0 || bytes != WholePages(bytes) || IsPinned(lock, host, 1)) std::abort();
  pinned_[AddressOf(host)] = bytes;
  return {};
}

void Device::UnpinLater(std::int32_t /*device*/, void* host, void (*then)(void*), void* context) {
  helper_.Enqueue([this, host, then, context] {
    EnterDriver();
    {
      const Lock lock(mutex_);
      if (pinned_.erase(AddressOf(host)) != 1) std::abort();
    }
    then(context);
  });
}

Status Device::MarkStream(std::int32_t, device::Stream stream, std::shared_ptr<device::Mark>* mark) {
  EnterDriver();
  auto made = std::make_shared<TestMark>();
  StreamOf(stream)->Enqueue([reached = made->reached] { reached->Open(); });
  *mark = std::move(made);
  return {};
}

// A stream that passes the gate, then copies what was released, if it was.
class TestHold final : public device::Hold {
 public:
  TestHold(Device* device, device::Stream stream, std::shared_ptr<Gate> after) : device_(device) {
    device->StreamOf(stream)->Enqueue([device, after = std::move(after), state = state_] {
      if (after) after->Pass();
      state->released.Pass();
      if (state->job) Carry(device, *state);
      state->passed.Open();
    });
  }
  ~TestHold() override { state_->released.Open(); }
  void GoOn() override { state_->released.Open(); }

  void Release(const CopyJob& job) override {
    state_->admitted = device_->Admit(job);
    state_->job = job;
    state_->released.Open();
  }
  Status AddStream(device::Stream stream) override {
    if (const Status status = device_->MayHold(); !status.ok()) return status;
    device_->StreamOf(stream)->Enqueue([state = state_] { state->passed.Pass(); });
    return {};
  }

 private:
  struct State {
    Gate released;
    Gate passed;
    std::optional<CopyJob> job;
    Status admitted;
  };
  static void Carry(Device* device, const State& state) {
    if (!state.admitted.ok()) return state.job->report(state.job->context, 0, state.admitted);
    state.job->report(state.job->context, 0, {});
    device->CarryOut(*state.job, Device::By::kStream);
  }

  Device* const device_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

Status Device::HoldStream(std::int32_t, device::Stream stream, const std::shared_ptr<const device::Mark>& after,
                          const void* host, std::shared_ptr<device::Hold>* hold) {
  if (const Status status = MayHold(); !status.ok()) return status;
  {
    const Lock lock(mutex_);
    if (is_lost_) return Failure(Code::kDeviceFailed, "the device is lost (injected)");
    if (!IsPinned(lock, host, 1)) std::abort();
  }
  const auto* const mark = static_cast<const TestMark*>(after.get());
  *hold = std::make_shared<TestHold>(this, stream, mark != nullptr ? mark->reached : nullptr);
  return {};
}

Status Device::Admit(const CopyJob& job) {
  const Lock lock(mutex_);
  if (is_lost_) return Failure(Code::kDeviceFailed, "device %d is lost (injected)", job.device);
  if (OneIn(lock, faults_.refuse_one_in)) return Failure(Code::kDeviceFailed, "the copy was refused (injected)");
  const bool to_host = job.direction == Direction::kToHost;
  std::size_t offset = 0;
  Allocation* const found = Find(lock, to_host ? job.from : job.to, &offset);
  if (found == nullptr || found->device != job.device || job.bytes > found->bytes - offset) std::abort();
  if (!IsPinned(lock, to_host ? job.to : job.from, job.bytes)) std::abort();
  ++found->copies;
  return {};
}

void Device::CarryOut(const CopyJob& job, By by) {
  for (std::size_t begin = 0; begin < job.bytes;) {
    if (by == By::kDriver) EnterDriver();
    const std::size_t end = device::SliceEnd(begin, job.bytes);
    begin = CopySlice(job, begin, end) ? end : job.bytes;
  }
  const Lock lock(mutex_);
  std::size_t offset = 0;
  --Find(lock, job.direction == Direction::kToHost ? job.from : job.to, &offset)->copies;
  copied_.notify_all();
}

Status Device::Start(const CopyJob& job) {
  if (Status admitted = Admit(job); !admitted.ok()) return admitted;
  const std::size_t direction = job.direction == Direction::kToHost ? 0 : 1;
  TestStream* const to = copy_streams_.at(2 * static_cast<std::size_t>(job.device) + direction).get();
  const auto begin = [this, job, to] {
    helper_.Enqueue([this, job, to] {
      job.report(job.context, 0, {});
      to->Enqueue([this, job] { CarryOut(job, By::kDriver); });
    });
  };
  const auto* const mark = static_cast<const TestMark*>(job.after.get());
  if (mark != nullptr)
    mark->reached->WhenOpen(begin);
  else
    begin();
  return {};
}

Device::Fate Device::Decide(std::chrono::microseconds* delay, std::shared_ptr<Gate>* hung) {
  const Lock lock(mutex_);
  if (faults_.delay_us > 0) *delay = std::chrono::microseconds(dice_() % faults_.delay_us);
  *hung = hung_;
  if (is_lost_ || OneIn(lock, faults_.fail_one_in)) return Fate::kFails;
  return OneIn(lock, faults_.hang_one_in) ? Fate::kHangs : Fate::kGood;
}

bool Device::CopySlice(const CopyJob& job, std::size_t begin, std::size_t end) {
  std::chrono::microseconds delay{0};
  std::shared_ptr<Gate> hung;
  const Fate fate = Decide(&delay, &hung);
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  if (fate == Fate::kHangs) hung->Pass();
  if (fate == Fate::kFails) {
    job.report(job.context, begin, Failure(Code::kDeviceFailed, "device %d is lost (injected)", job.device));
    return false;
  }
  std::byte* to = static_cast<std::byte*>(job.to) + begin;
  const std::byte* from = static_cast<const std::byte*>(job.from) + begin;
  {
    const Lock lock(mutex_);
    if (job.direction == Direction::kToHost) from = Reach(lock, from, end - begin);
    if (job.direction == Direction::kToDevice) to = Reach(lock, to, end - begin);
  }
  std::memcpy(to, from, end - begin);
  job.report(job.context, end, {});
  return true;
}

std::byte* Device::Reach(const Lock& lock, const void* memory, std::size_t bytes) {
  std::size_t offset = 0;
  const Allocation* const found = Find(lock, memory, &offset);
  if (found == nullptr || bytes > found->bytes - offset) std::abort();  // freed under a copy
  return found->contents + offset;
}

Status Device::Allocate(std::int32_t device, std::size_t bytes, void** memory) {
  if (device < 0 || device >= kCount) return Failure(Code::kInvalidArgument, "there is no device %d", device);
  Allocation made{.device = device, .bytes = bytes, .mapped = WholePages(bytes)};
  std::byte* const address = Map(made.mapped, PROT_NONE);
  made.contents = Map(made.mapped, PROT_READ | PROT_WRITE);
  if (address == nullptr || made.contents == nullptr) return Failure(Code::kResourceExhausted, "no memory");
  const Lock lock(mutex_);
  allocations_[AddressOf(address)] = made;
  *memory = address;
  return {};
}

void Device::Free(void* memory) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = allocations_.find(AddressOf(memory));
  if (found == allocations_.end()) std::abort();
  copied_.wait(lock, [found] { return found->second.copies == 0; });
  ::munmap(found->second.contents, found->second.mapped);
  ::munmap(memory, found->second.mapped);
  allocations_.erase(found);
}

Status Device::CopyNow(void* to, const void* from, std::size_t bytes) {
  SynchronizeInDriver(&default_stream_);
  {
    const Lock lock(mutex_);
    std::size_t offset = 0;
    if (Find(lock, to, &offset) != nullptr) to = Reach(lock, to, bytes);
    if (Find(lock, from, &offset) != nullptr) from = Reach(lock, from, bytes);
  }
  std::memcpy(to, from, bytes);
  return {};
}

void Device::SetFaults(const Faults& faults) {
  const Lock lock(mutex_);
  faults_ = faults;
  dice_.seed(faults.seed);
}

void Device::Reset() {
  const Lock lock(mutex_);
  faults_ = {};
  is_lost_ = false;
  std::exchange(hung_, std::make_shared<Gate>())->Open();
}

void Device::Lose() {
  const Lock lock(mutex_);
  is_lost_ = true;
}

void Device::SynchronizeInDriver(TestStream* stream) {
  const std::lock_guard<std::mutex> lock(driver_);
  is_driver_kept_ = true;
  stream->Synchronize();
  is_driver_kept_ = false;
}

std::byte* Device::Contents(void* memory) {
  const Lock lock(mutex_);
  return Reach(lock, memory, 1);
}

std::size_t Device::pinned_bytes() const {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [address, size] : pinned_) bytes += size;
  return bytes;
}

}  // namespace

TestDevice& TestDevice::Get() {
  static auto* const kDevice = new Device;  // never destroyed: its threads outlive main
  return *kDevice;
}

}  // namespace ringway::testing

extern "C" __attribute__((visibility("default"))) ringway::device::Library* RingwayDeviceLibrary(
    std::uint32_t version) {
  return version == ringway::device::kLibraryVersion ? &ringway::testing::TestDevice::Get() : nullptr;
}

// Tests in Python use the same library by ctypes.
extern "C" __attribute__((visibility("default"))) void* RingwayTestDeviceAllocate(std::int32_t device,
                                                                                  std::size_t bytes) {
  void* memory = nullptr;
  return ringway::testing::TestDevice::Get().Allocate(device, bytes, &memory).ok() ? memory : nullptr;
}

extern "C" __attribute__((visibility("default"))) bool RingwayTestDeviceCopy(void* to, const void* from,
                                                                             std::size_t bytes) {
  return ringway::testing::TestDevice::Get().CopyNow(to, from, bytes).ok();
}
