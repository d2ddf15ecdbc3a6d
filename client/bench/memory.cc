#include "client/bench/memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/device/loader.h"

namespace ringway::bench {

Result<Memory> Memory::Allocate(Session* session, std::size_t bytes, std::optional<std::int32_t> device) {
  Memory memory;
  if (!device) {
    auto buffer = session->Allocate(bytes);
    if (!buffer.ok()) return buffer.status();
    memory.buffer_ = std::move(buffer.value());
    return memory;
  }
  device::LoadDriver();
  const device::Loaded& loaded = device::Load();
  if (loaded.library == nullptr) {
    return Status(Code::kNotSupported,
                  loaded.problem.empty() ? "this host has no GPU driver (libcuda.so.1)" : loaded.problem);
  }
  void* on_device = nullptr;
  const device::Status made = loaded.library->Allocate(*device, std::max<std::size_t>(bytes, 1), &on_device);
  if (!made.ok()) return ToStatus(made);
  memory.on_device_ = {on_device, FreeOnDevice{loaded.library}};
  memory.copy_.resize(bytes + 1);  // so that there is some
  return memory;
}

Status Memory::Push(std::size_t bytes) {
  if (!on_device_ || bytes == 0) return {};
  return ToStatus(on_device_.get_deleter().library->CopyNow(on_device_.get(), copy_.data(), bytes));
}

Status Memory::Pull(std::size_t bytes) {
  if (!on_device_ || bytes == 0) return {};
  return ToStatus(on_device_.get_deleter().library->CopyNow(copy_.data(), on_device_.get(), bytes));
}

}  // namespace ringway::bench
