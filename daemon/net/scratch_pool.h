// A pool of receive buffers for payloads that are reduced before they reach memory, shared by the lanes of a thread.
//
// Two sizes: small (256 KiB, the usual segment) and large (kPayloadBytesMax), 21 MiB in all, mapped at once but touched
// only as used. Reuse is last in, first out, for the cache.
//
// A half-read frame holds its buffer for as long as its sender likes, so each peer of this daemon, a member of one
// group, has an account. For each size:
//
//   an account that                      gets for its next frame
//   holds less than its share            a buffer of the pool. The share: three quarters of what the others leave
//                                        (proto/fair_pool.h), so one alone has 48 small and 4 large ones
//   holds none, where the pool is empty  one outside the pool, freed after the frame, unless kExtrasMax are in use: so
//                                        accounts that lie do not cost the others their turns
//   else                                 none: its lanes queue. Accounts that wait take turns
//
// Thread: one (the data thread, or a lane thread). Lifetime: outlives every account, Scratch and waiter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/fair_pool.h"
#include "proto/ids.h"

namespace ringway::net {

class Scratch;
class ScratchPool;

class ScratchSink {
 public:
  virtual ~ScratchSink() = default;
  // Delivers the awaited buffer. Called within another holder's Scratch::Reset: keep it and continue later.
  virtual void OnScratch(Scratch scratch) = 0;
};

// Accounts for what one peer's lanes hold, and which of them wait. Only the pool looks into it.
class ScratchAccount {
 private:
  friend class ScratchPool;
  struct Use {
    std::size_t held = 0;                            // of the pool
    bool has_extra = false;                          // one outside it
    std::deque<std::weak_ptr<ScratchSink>> waiters;  // not empty: the account is in the pool's line
  };
  std::array<Use, 2> uses_;  // small, large
};

// A borrowed buffer; returned when destroyed.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch() { Reset(); }
  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  void Reset();

 private:
  friend class ScratchPool;
  ScratchPool* pool_ = nullptr;
  std::shared_ptr<ScratchAccount> account_;
  std::byte* data_ = nullptr;
  std::unique_ptr<std::byte[]> extra_;  // what data_ points to, if that is outside the pool
  bool large_ = false;
};

struct ScratchPoolOptions {
  std::size_t small_count = 64;
  std::size_t large_count = 5;

  // Most that one account holds of both sizes.
  constexpr std::size_t held_max() const {
    return FairPool::ShareOf(small_count) + FairPool::ShareOf(large_count) + 2;  // and one of each outside the pool
  }
};

class ScratchPool {
 public:
  static constexpr std::size_t kSmallBytes = 256 * 1024;

  explicit ScratchPool(const ScratchPoolOptions& options = {});
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // The one that all lanes of this peer use.
  std::shared_ptr<ScratchAccount> AccountOf(PeerId peer);
  // Returns a buffer of at least `bytes`, or none: then Wait. REQUIRES: bytes <= kPayloadBytesMax.
  Scratch Acquire(const std::shared_ptr<ScratchAccount>& account, std::size_t bytes);
  void Wait(const std::shared_ptr<ScratchAccount>& account, std::size_t bytes, std::weak_ptr<ScratchSink> waiter);
  // Sink for discarded bytes; all may write here.
  std::span<std::byte> trash() { return trash_; }

 private:
  friend class Scratch;
  struct Size {
    std::size_t bytes = 0;
    std::vector<std::byte*> free;
    std::size_t extras = 0;                            // in use, outside the pool
    std::deque<std::shared_ptr<ScratchAccount>> line;  // of accounts with waiters
  };
  void Return(const std::shared_ptr<ScratchAccount>& account, std::byte* data, bool is_extra, bool large);
  // Hands free buffers to the waiters of the accounts in line.
  void Serve(bool large);

  static constexpr std::size_t kExtrasMax = 32;  // of each size: 40 MiB in all

  std::array<Size, 2> sizes_;  // small, large
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::vector<std::byte> trash_;
  std::map<PeerId, std::weak_ptr<ScratchAccount>> accounts_;
};

}  // namespace ringway::net
