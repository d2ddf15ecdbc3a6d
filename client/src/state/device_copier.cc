#include "client/src/state/device_copier.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "client/src/device_part.h"

namespace ringway::internal {
namespace {

constexpr std::size_t kPinnedBytes = std::size_t{4} << 20;

// The progress of one copy, which may outlive the threads that wait for it.
struct Copying {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t arrived = 0;
  Status error;
};

}  // namespace

Status DeviceCopier::PinFor(std::int32_t device) {
  if (pinned_ != nullptr) return {};
  auto memory = SharedMemory::Create(kPinnedBytes);
  if (!memory.ok()) return memory.status();
  std::shared_ptr<Region> region(new Region, EndRegion());
  region->memory = std::move(memory.value());
  if (Status error = ToStatus(PinRegion(library_, device, region.get())); !error.ok()) return error;
  pinned_ = std::move(region);
  return {};
}

Status DeviceCopier::Carry(const device::CopyJob& job) {
  const auto copying = std::make_shared<Copying>();
  const auto report = [copying, region = pinned_](std::size_t arrived, const Status& error) {
    const std::lock_guard<std::mutex> lock(copying->mutex);
    copying->arrived = arrived;
    copying->error = error;
    copying->changed.notify_all();
  };
  const auto start = [this](const device::CopyJob& copy) { return library_->Start(copy); };
  if (Status error = StartCopy(start, job, report); !error.ok()) return error;
  std::unique_lock<std::mutex> lock(copying->mutex);
  while (copying->error.ok() && copying->arrived < job.bytes) {
    const std::size_t before = copying->arrived;
    const auto has_moved = [&] { return copying->arrived > before || !copying->error.ok(); };
    if (copying->changed.wait_for(lock, library_->patience(), has_moved)) continue;
    pinned_.reset();
    return Status(Code::kDeviceFailed, "a copy of the shared state hangs: nothing of it was copied for " +
                                           std::to_string(library_->patience().count()) + " ms");
  }
  return copying->error;
}

Status DeviceCopier::Copy(device::Direction direction, std::int32_t device, std::byte* on_device, std::byte* on_host,
                          std::size_t bytes) {
  const bool to_host = direction == device::Direction::kToHost;
  for (std::size_t at = 0; at < bytes; at += kPinnedBytes) {
    if (Status error = PinFor(device); !error.ok()) return error;
    device::CopyJob job;
    job.direction = direction;
    job.device = device;
    job.bytes = std::min(kPinnedBytes, bytes - at);
    job.to = to_host ? pinned_->data() : on_device + at;
    job.from = to_host ? on_device + at : pinned_->data();
    if (!to_host) std::memcpy(pinned_->data(), on_host + at, job.bytes);
    if (Status error = Carry(job); !error.ok()) return error;
    if (to_host) std::memcpy(on_host + at, pinned_->data(), job.bytes);
  }
  return {};
}

}  // namespace ringway::internal
