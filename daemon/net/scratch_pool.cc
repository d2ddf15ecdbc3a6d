#include "daemon/net/scratch_pool.h"

#include <sys/mman.h>

#include <utility>

#include "proto/check.h"
#include "proto/segment_header.h"

namespace ringway::net {
namespace {
constexpr std::size_t kTrashBytes = 256 * 1024;
}

// ---- a buffer

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = other.pool_;
    account_ = std::move(other.account_);
    data_ = std::exchange(other.data_, nullptr);
    extra_ = std::move(other.extra_);
    large_ = other.large_;
  }
  return *this;
}

void Scratch::Reset() {
  if (data_ == nullptr) return;
  const bool is_extra = extra_ != nullptr;
  extra_ = nullptr;
  pool_->Return(std::exchange(account_, nullptr), std::exchange(data_, nullptr), is_extra, large_);
}

// ---- the pool

ScratchPool::ScratchPool(const ScratchPoolOptions& options)
    : memory_bytes_(options.small_count * kSmallBytes + options.large_count * kPayloadBytesMax), trash_(kTrashBytes) {
  void* mapped = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RINGWAY_CHECK(mapped != MAP_FAILED);
  memory_ = static_cast<std::byte*>(mapped);
  std::byte* next = memory_;
  const auto fill = [&next](Size& size, std::size_t bytes, std::size_t count) {
    size.bytes = bytes;
    for (std::size_t i = 0; i < count; ++i, next += bytes) size.free.push_back(next);
  };
  fill(sizes_[1], kPayloadBytesMax, options.large_count);
  fill(sizes_[0], kSmallBytes, options.small_count);
}

ScratchPool::~ScratchPool() { ::munmap(memory_, memory_bytes_); }

std::shared_ptr<ScratchAccount> ScratchPool::AccountOf(PeerId peer) {
  std::erase_if(accounts_, [](const auto& account) { return account.second.expired(); });
  std::weak_ptr<ScratchAccount>& known = accounts_[peer];
  std::shared_ptr<ScratchAccount> account = known.lock();
  if (account == nullptr) known = account = std::make_shared<ScratchAccount>();
  return account;
}

Scratch ScratchPool::Acquire(const std::shared_ptr<ScratchAccount>& account, std::size_t bytes) {
  RINGWAY_CHECK(bytes <= kPayloadBytesMax);
  const bool large = bytes > kSmallBytes;
  Size& size = sizes_[large];
  ScratchAccount::Use& use = account->uses_[large];
  Scratch scratch;
  if (!size.free.empty() && use.held < FairPool::ShareOf(size.free.size() + use.held)) {
    scratch.data_ = size.free.back();
    size.free.pop_back();
    ++use.held;
  } else if (use.held == 0 && !use.has_extra && size.extras < kExtrasMax) {
    scratch.extra_ = std::make_unique_for_overwrite<std::byte[]>(size.bytes);
    scratch.data_ = scratch.extra_.get();
    use.has_extra = true;
    ++size.extras;
  } else {
    return scratch;
  }
  scratch.pool_ = this;
  scratch.account_ = account;
  scratch.large_ = large;
  return scratch;
}

void ScratchPool::Wait(const std::shared_ptr<ScratchAccount>& account, std::size_t bytes,
                       std::weak_ptr<ScratchSink> waiter) {
  const bool large = bytes > kSmallBytes;
  ScratchAccount::Use& use = account->uses_[large];
  if (use.waiters.empty()) sizes_[large].line.push_back(account);
  // Lanes that are opened again and again leave theirs behind.
  std::erase_if(use.waiters, [](const auto& each) { return each.expired(); });
  use.waiters.push_back(std::move(waiter));
}

void ScratchPool::Return(const std::shared_ptr<ScratchAccount>& account, std::byte* data, bool is_extra, bool large) {
  ScratchAccount::Use& use = account->uses_[large];
  if (is_extra) {
    use.has_extra = false;
    --sizes_[large].extras;
  } else {
    sizes_[large].free.push_back(data);
    --use.held;
  }
  if (!sizes_[large].line.empty()) Serve(large);
}

void ScratchPool::Serve(bool large) {
  auto& line = sizes_[large].line;
  for (std::size_t i = 0; i < line.size();) {
    const std::shared_ptr<ScratchAccount> account = line[i];
    auto& waiters = account->uses_[large].waiters;
    std::shared_ptr<ScratchSink> waiter;
    while (!waiters.empty() && (waiter = waiters.front().lock()) == nullptr) waiters.pop_front();
    Scratch scratch = waiter == nullptr ? Scratch() : Acquire(account, sizes_[large].bytes);
    if (waiter != nullptr && !scratch) {
      ++i;
      continue;
    }
    line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
    if (waiter == nullptr) continue;
    waiters.pop_front();
    if (!waiters.empty()) line.push_back(account);
    waiter->OnScratch(std::move(scratch));  // which may return it, and so come here again
  }
}

}  // namespace ringway::net
