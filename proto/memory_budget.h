// Memory accounting of a daemon: how much it may take, for what, and which session has it.
//
//   MemoryBudget  the daemon's limit. kRegions: at most three quarters of it, so that there is always room to work;
//                 kReorder: at most a quarter, and at most kReorderBytesMax
//   MemoryShare   one session's part: at most half of the budget; those of a user together at most what a FairPool
//                 says, of all memory and of what is for regions. With its last share a user's reservations end
//
// Counts only: callers charge before they allocate, and release afterwards. A share releases what is left when it is
// destroyed. Regions count with their whole size, whether or not their pages are allocated.
//
// Threads: one. Lifetime: a share keeps its budget alive. Errors: kResourceExhausted with a text that names what is
// full; TryTake is the same without a text, for callers that have a fallback.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/fair_pool.h"
#include "proto/result.h"

namespace ringway {

enum class MemoryUse : std::uint8_t {
  kRegions,    // the trainers' shared memory
  kResults,    // retained results, and inputs, that others may still need
  kReorder,    // values that arrived before their turn in a sum
  kEarly,      // early frames: of operations that were not submitted here yet
  kResiduals,  // of error feedback, and what its operations compute with
};
inline constexpr std::size_t kMemoryUses = 5;
inline constexpr std::array<const char*, kMemoryUses> kMemoryUseNames = {"regions", "results", "reorder", "early",
                                                                         "residuals"};

class MemoryBudget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kReorderBytesMax = 256 << 20;

  explicit MemoryBudget(std::uint64_t bytes_max = kUnlimited)
      : bytes_max_(bytes_max), all_(bytes_max), regions_(limit(MemoryUse::kRegions)) {}

  std::uint64_t bytes_max() const { return bytes_max_; }
  std::uint64_t share_max() const { return bytes_max_ == kUnlimited ? kUnlimited : bytes_max_ / 2; }
  std::uint64_t used() const { return all_.used(); }
  std::uint64_t used(MemoryUse use) const { return used_by_[Index(use)]; }
  std::uint64_t limit(MemoryUse use) const {
    if (use == MemoryUse::kReorder) return std::min(bytes_max_ / 4, kReorderBytesMax);
    return use == MemoryUse::kRegions && bytes_max_ != kUnlimited ? bytes_max_ / 4 * 3 : bytes_max_;
  }
  // Ages the users' reservations. To be called often.
  void Age(TimePoint now) {
    all_.Age(now);
    regions_.Age(now);
  }

 private:
  friend class MemoryShare;
  static std::size_t Index(MemoryUse use) { return static_cast<std::size_t>(use); }

  void Enter(const HostUser& user) { ++shares_[user.uid]; }
  void Leave(const HostUser& user) {
    if (--shares_.at(user.uid) > 0) return;
    shares_.erase(user.uid);
    all_.Forget(user);
    regions_.Forget(user);
  }
  void Take(const HostUser& user, MemoryUse use, std::uint64_t bytes) {
    const bool fits = all_.TryTake(user, bytes) && (use != MemoryUse::kRegions || regions_.TryTake(user, bytes));
    RINGWAY_CHECK(fits);
    used_by_[Index(use)] += bytes;
  }
  void Give(const HostUser& user, MemoryUse use, std::uint64_t bytes) {
    all_.Give(user, bytes);
    if (use == MemoryUse::kRegions) regions_.Give(user, bytes);
    used_by_[Index(use)] -= bytes;
  }

  std::uint64_t bytes_max_;
  FairPool all_;
  FairPool regions_;
  std::array<std::uint64_t, kMemoryUses> used_by_{};
  std::map<std::uint32_t, std::uint64_t> shares_;  // of each user
};

class MemoryShare {
 public:
  // `user`: whose session it is.
  explicit MemoryShare(std::shared_ptr<MemoryBudget> budget, const HostUser& user = {})
      : budget_(std::move(budget)), user_(user) {
    budget_->Enter(user_);
  }
  ~MemoryShare() {
    for (std::size_t i = 0; i < kMemoryUses; ++i) Give(static_cast<MemoryUse>(i), used_by_[i]);
    budget_->Leave(user_);
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  const MemoryBudget& budget() const { return *budget_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t used(MemoryUse use) const { return used_by_[MemoryBudget::Index(use)]; }

  [[nodiscard]] bool TryTake(MemoryUse use, std::uint64_t bytes) {
    if (WhatIsFull(use, bytes) != Full::kNothing) return false;
    used_ += bytes;
    used_by_[MemoryBudget::Index(use)] += bytes;
    budget_->Take(user_, use, bytes);
    return true;
  }

  Status Take(MemoryUse use, std::uint64_t bytes) {
    if (TryTake(use, bytes)) return Status::Ok();
    const std::string name = kMemoryUseNames[MemoryBudget::Index(use)];
    std::string what;
    switch (WhatIsFull(use, bytes)) {
      case Full::kShare:
        what = "this session has " + std::to_string(used_) + " of at most " + std::to_string(budget_->share_max()) +
               " bytes, half of --memory-max";
        break;
      case Full::kUser: {
        const FairPool& pool = budget_->all_.Fits(user_, bytes) ? budget_->regions_ : budget_->all_;
        what = "user " + std::to_string(user_.uid) + " has " + std::to_string(pool.used(user_)) + " of at most " +
               std::to_string(pool.limit(user_)) + " bytes, its share of --memory-max";
        break;
      }
      case Full::kUse:
        what = "all sessions have " + std::to_string(budget_->used(use)) + " of at most " +
               std::to_string(budget_->limit(use)) + " bytes for " + name;
        break;
      default:
        what = "the daemon has " + std::to_string(budget_->used()) + " of its --memory-max of " +
               std::to_string(budget_->bytes_max_) + " bytes";
    }
    return {Code::kResourceExhausted, std::to_string(bytes) + " bytes more for " + name + " do not fit: " + what +
                                          "; free buffers, or start ringwayd with more --memory-max"};
  }

  // REQUIRES: taken before.
  void Give(MemoryUse use, std::uint64_t bytes) {
    RINGWAY_CHECK(bytes <= used_by_[MemoryBudget::Index(use)]);
    used_ -= bytes;
    used_by_[MemoryBudget::Index(use)] -= bytes;
    budget_->Give(user_, use, bytes);
  }

 private:
  enum class Full : std::uint8_t { kNothing, kShare, kUser, kUse, kAll };
  static bool Fits(std::uint64_t bytes, std::uint64_t used, std::uint64_t limit) {
    return used <= limit && bytes <= limit - used;
  }
  Full WhatIsFull(MemoryUse use, std::uint64_t bytes) const {
    if (!Fits(bytes, used_, budget_->share_max())) return Full::kShare;
    if (!Fits(bytes, budget_->used(use), budget_->limit(use))) return Full::kUse;
    if (!Fits(bytes, budget_->used(), budget_->bytes_max_)) return Full::kAll;
    const bool has_share =
        budget_->all_.Fits(user_, bytes) && (use != MemoryUse::kRegions || budget_->regions_.Fits(user_, bytes));
    return has_share ? Full::kNothing : Full::kUser;
  }

  std::shared_ptr<MemoryBudget> budget_;
  const HostUser user_;
  std::uint64_t used_ = 0;
  std::array<std::uint64_t, kMemoryUses> used_by_{};
};

// RAII: releases bytes of a share when the last holder is gone.
class MemoryCharge {
 public:
  // REQUIRES: the bytes have been taken.
  MemoryCharge(std::shared_ptr<MemoryShare> share, MemoryUse use, std::uint64_t bytes)
      : share_(std::move(share)), use_(use), bytes_(bytes) {}
  ~MemoryCharge() { share_->Give(use_, bytes_); }
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;

 private:
  std::shared_ptr<MemoryShare> share_;
  MemoryUse use_;
  std::uint64_t bytes_;
};

}  // namespace ringway
