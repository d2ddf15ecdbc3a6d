// A client's shared memory as the daemon sees it: one memfd, up to two mappings.
//
// Inputs are read through a read-only mapping, results written through a separate one, so a write to an input by
// mistake faults instead of damaging a trainer's data. Both are made at first use and shared by all operations; a
// mapping lives until the region and the last MemoryKeep of it are gone, so no half-written frame reads from memory
// that is not there.
//
// Mapping is cheap whatever the size: pages enter as they are first touched, a few at a time between other events. To
// enter them all at once (MAP_POPULATE) would keep the event loop from its heartbeats, some 0.3 ms a MiB.
//
// Every descriptor is hostile until checked: only a memfd that can never shrink (seals) is mapped, else a truncating
// trainer would kill the daemon with SIGBUS.
//
// What a region held goes to a Reclaimer in the end, if there is one, which spares this thread the time that it takes.
//
// Threads: one; a MemoryKeep may be released on the same thread only. Errors: kProtocol, kIo or kNotSupported with a
// sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/local/reclaimer.h"
#include "proto/memory_budget.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

// Holds a mapping; the same type as agreement::Keep.
using MemoryKeep = std::shared_ptr<const void>;

// Checks that `fd` is a memfd of exactly `bytes`, sealed against shrinking, growing and further seals.
Status CheckSealedMemfd(int fd, std::uint64_t bytes);

// Checks that all pages of the memfd are there, in memory or swapped out: whoever touches the first time a page that is
// not takes the memory for it, and that is not to be the daemon. kInvalidArgument if not. One system call.
Status CheckPopulated(int fd, std::uint64_t bytes);

// Where a region's memory goes; null: it is freed at once.
using ReclaimerPtr = std::shared_ptr<Reclaimer>;

// What a region takes of its session's share, until nothing uses it any more; null: nothing.
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
  // Takes a memfd that CheckSealedMemfd accepted.
  Region(net::UniqueFd fd, std::uint64_t bytes, ReclaimerPtr reclaimer = nullptr)
      : fd_(std::move(fd)), bytes_(bytes), reclaimer_(std::move(reclaimer)) {}
  ~Region();
  Region(Region&&) = default;
  Region& operator=(Region&&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // Why no operation will ever use it; then its descriptor is let go of.
  const Status& refused() const { return refused_; }
  void Refuse(Status why) {
    refused_ = std::move(why);
    fd_.Reset();
  }
  // Nothing: it has no room in its session's share yet.
  const ChargePtr& charge() const { return charge_; }
  void SetCharge(ChargePtr charge) { charge_ = std::move(charge); }
  Result<std::shared_ptr<const Mapping>> Input();
  Result<std::shared_ptr<const Mapping>> Output();

 private:
  net::UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  Status refused_ = Status::Ok();
  ReclaimerPtr reclaimer_;
  ChargePtr charge_;
  std::shared_ptr<const Mapping> input_;
  std::shared_ptr<const Mapping> output_;
};

}  // namespace ringway::local
