// Copies between the host's memory and a device's, through pinned memory of its own, and waits for the copies.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>

#include "client/src/region_pool.h"
#include "proto/device/library.h"

namespace ringway::internal {

class DeviceCopier {
 public:
  explicit DeviceCopier(device::Library* library) : library_(library) {}

  // kDeviceFailed: the device failed, or nothing was copied for the library's patience; kResourceExhausted.
  Status Copy(device::Direction direction, std::int32_t device, std::byte* on_device, std::byte* on_host,
              std::size_t bytes);

 private:
  Status PinFor(std::int32_t device);
  // Waits for it.
  Status Carry(const device::CopyJob& job);

  device::Library* const library_;
  std::shared_ptr<Region> pinned_;  // a copy that hangs keeps it
};

}  // namespace ringway::internal
