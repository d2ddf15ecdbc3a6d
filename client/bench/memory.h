// Memory for an operation: a session's Buffer, or memory of a GPU with a host copy beside it to fill and to check.
//
// Movable. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <vector>

#include "proto/device/library.h"

namespace ringway::bench {

struct FreeOnDevice {
  device::Library* library = nullptr;
  void operator()(void* memory) const { library->Free(memory); }
};

class Memory {
 public:
  // `device`: the GPU; nullopt: a Buffer. kNotSupported if there is no device library (proto/device/loader.h).
  static Result<Memory> Allocate(Session* session, std::size_t bytes, std::optional<std::int32_t> device);

  // Returns the memory that the operation uses.
  void* data() const { return on_device_ ? on_device_.get() : buffer_.data(); }
  // Returns where the host writes before Push, and reads after Pull.
  void* host() { return on_device_ ? static_cast<void*>(copy_.data()) : buffer_.data(); }
  Status Push(std::size_t bytes);
  Status Pull(std::size_t bytes);

 private:
  Buffer buffer_;
  std::unique_ptr<void, FreeOnDevice> on_device_;
  std::vector<std::byte> copy_;
};

}  // namespace ringway::bench
