#include "daemon/net/scratch_pool.h"

#include <sys/mman.h>

#include <utility>

#include "proto/check.h"
#include "proto/segment_header.h"

namespace ringway::net {
namespace {
constexpr std::size_t kTrashBytes = 256 * 1024;
}

Scratch::Scratch(Scratch&& other) noexcept
    : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)), large_(other.large_) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = other.pool_;
    data_ = std::exchange(other.data_, nullptr);
    large_ = other.large_;
  }
  return *this;
}

void Scratch::Reset() {
  if (data_ != nullptr) pool_->Return(std::exchange(data_, nullptr), large_);
}

ScratchPool::ScratchPool(const ScratchPoolOptions& options)
    : memory_bytes_(options.small_count * kSmallBytes + options.large_count * kPayloadBytesMax), trash_(kTrashBytes) {
  void* mapped = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RINGWAY_CHECK(mapped != MAP_FAILED);
  memory_ = static_cast<std::byte*>(mapped);
  std::byte* next = memory_;
  for (std::size_t i = 0; i < options.large_count; ++i, next += kPayloadBytesMax) large_.free.push_back(next);
  for (std::size_t i = 0; i < options.small_count; ++i, next += kSmallBytes) small_.free.push_back(next);
}

ScratchPool::~ScratchPool() { ::munmap(memory_, memory_bytes_); }

Scratch ScratchPool::Acquire(std::size_t bytes) {
  RINGWAY_CHECK(bytes <= kPayloadBytesMax);
  const bool large = bytes > kSmallBytes;
  Size& size = SizeFor(large);
  if (size.free.empty()) return {};
  std::byte* data = size.free.back();
  size.free.pop_back();
  return {this, data, large};
}

void ScratchPool::Wait(std::size_t bytes, std::weak_ptr<ScratchWaiter> waiter) {
  SizeFor(bytes > kSmallBytes).waiters.push_back(std::move(waiter));
}

void ScratchPool::Return(std::byte* data, bool large) {
  Size& size = SizeFor(large);
  while (!size.waiters.empty()) {
    const std::shared_ptr<ScratchWaiter> waiter = size.waiters.front().lock();
    size.waiters.pop_front();
    if (waiter == nullptr) continue;
    waiter->OnScratch(Scratch(this, data, large));
    return;
  }
  size.free.push_back(data);
}

}  // namespace ringway::net
