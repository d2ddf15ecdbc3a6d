// A client's shared memory as the daemon sees it: one memfd, up to two mappings.
//
//   mappings     inputs read-only, results writable, so that a stray write to an input faults. Made at first use,
//                shared by all operations
//   lifetime     a mapping lives until the region and its last holder are gone, so that a half-written frame never
//                reads unmapped memory
//   page faults  lazy: MAP_POPULATE would block the event loop, and its heartbeats, for some 0.3 ms a MiB
//   checks       a descriptor is hostile: only a memfd sealed against shrinking is mapped, for truncation would kill
//                the daemon with SIGBUS
//   freeing      by the Reclaimer, if there is one, off this thread
//
// Threads: one; a mapping is let go of on the same thread only. Errors: kProtocol, kIo or kNotSupported with a
// sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/local/reclaimer.h"
#include "proto/fair_pool.h"
#include "proto/memory_budget.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

// Checks that `fd` is a memfd of exactly `bytes`, sealed against shrinking, growing and further seals.
Status CheckSealedMemfd(int fd, std::uint64_t bytes);

// Checks that all pages of the memfd are allocated, in memory or swap: the first touch of a missing page allocates it,
// and that must not be the daemon's. kInvalidArgument if not. One system call.
Status CheckPopulated(int fd, std::uint64_t bytes);

// Frees a region's memory; null: it is freed in place.
using ReclaimerPtr = std::shared_ptr<Reclaimer>;

// A region's charge to its session's share, held until nothing uses the region any more; null: none.
using ChargePtr = std::shared_ptr<const MemoryCharge>;

// One mapping, unmapped when destroyed.
class Mapping {
 public:
  static Result<std::shared_ptr<const Mapping>> Map(int fd, std::uint64_t bytes, bool writable,
                                                    ReclaimerPtr reclaimer = nullptr, ChargePtr charge = nullptr);
  Mapping(void* data, std::uint64_t bytes, ReclaimerPtr reclaimer, ChargePtr charge)
      : data_(data), bytes_(bytes), reclaimer_(std::move(reclaimer)), charge_(std::move(charge)) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  std::uint64_t bytes_;
  ReclaimerPtr reclaimer_;
  ChargePtr charge_;
};

class Region {
 public:
  // Takes a memfd that CheckSealedMemfd accepted. `descriptor`: its owner's charge for it.
  Region(net::UniqueFd fd, std::uint64_t bytes, ReclaimerPtr reclaimer = nullptr, PoolCharge descriptor = {})
      : fd_(std::move(fd)), descriptor_(std::move(descriptor)), bytes_(bytes), reclaimer_(std::move(reclaimer)) {}
  ~Region();
  Region(Region&&) = default;
  Region& operator=(Region&&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // Returns why no operation may ever use it; its descriptor is closed. The trainer may register its memory anew.
  const Status& refused() const { return refused_; }
  void Refuse(Status why) {
    refused_ = std::move(why);
    if (reclaimer_ != nullptr) reclaimer_->Close(std::move(fd_));
    fd_.Reset();
    descriptor_.Reset();
  }
  // Null: it has no room in its session's share yet.
  const ChargePtr& charge() const { return charge_; }
  void SetCharge(ChargePtr charge) { charge_ = std::move(charge); }
  Result<std::shared_ptr<const Mapping>> Input();
  Result<std::shared_ptr<const Mapping>> Output();

 private:
  net::UniqueFd fd_;
  PoolCharge descriptor_;
  std::uint64_t bytes_ = 0;
  Status refused_ = Status::Ok();
  ReclaimerPtr reclaimer_;
  ChargePtr charge_;
  std::shared_ptr<const Mapping> input_;
  std::shared_ptr<const Mapping> output_;
};

}  // namespace ringway::local
