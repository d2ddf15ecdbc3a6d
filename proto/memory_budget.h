// Memory accounting of a daemon: how much it may take, for what, and which session has it.
//
//   MemoryBudget  the daemon's limit. kRegions: at most three quarters of it, so that there is always room to work;
//                 kAside: at most a quarter, and at most kAsideBytesMax
//   MemoryShare   one session's part: at most half of the budget
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
#include <memory>
#include <string>
#include <utility>

#include "proto/check.h"
#include "proto/result.h"

namespace ringway {

enum class MemoryUse : std::uint8_t {
  kRegions,    // the trainers' shared memory
  kResults,    // retained results, and inputs, that others may still need
  kAside,      // values that arrived before their turn in a sum
  kEarly,      // early frames: of operations that were not submitted here yet
  kResiduals,  // of error feedback, and what its operations compute with
};
inline constexpr std::size_t kMemoryUses = 5;
inline constexpr std::array<const char*, kMemoryUses> kMemoryUseNames = {"regions", "results", "aside", "early",
                                                                         "residuals"};

class MemoryBudget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kAsideBytesMax = 256 << 20;

  explicit MemoryBudget(std::uint64_t bytes_max = kUnlimited) : bytes_max_(bytes_max) {}

  std::uint64_t bytes_max() const { return bytes_max_; }
  std::uint64_t share_max() const { return bytes_max_ == kUnlimited ? kUnlimited : bytes_max_ / 2; }
  std::uint64_t used() const { return used_; }
  std::uint64_t used(MemoryUse use) const { return used_by_[Index(use)]; }
  std::uint64_t limit(MemoryUse use) const {
    if (use == MemoryUse::kAside) return std::min(bytes_max_ / 4, kAsideBytesMax);
    return use == MemoryUse::kRegions && bytes_max_ != kUnlimited ? bytes_max_ / 4 * 3 : bytes_max_;
  }

 private:
  friend class MemoryShare;
  static std::size_t Index(MemoryUse use) { return static_cast<std::size_t>(use); }

  std::uint64_t bytes_max_;
  std::uint64_t used_ = 0;
  std::array<std::uint64_t, kMemoryUses> used_by_{};
};

class MemoryShare {
 public:
  explicit MemoryShare(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  ~MemoryShare() {
    for (std::size_t i = 0; i < kMemoryUses; ++i) Give(static_cast<MemoryUse>(i), used_by_[i]);
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
    budget_->used_ += bytes;
    budget_->used_by_[MemoryBudget::Index(use)] += bytes;
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
      case Full::kUse:
        what = "all sessions have " + std::to_string(budget_->used(use)) + " of at most " +
               std::to_string(budget_->limit(use)) + " bytes for " + name;
        break;
      default:
        what = "the daemon has " + std::to_string(budget_->used_) + " of its --memory-max of " +
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
    budget_->used_ -= bytes;
    budget_->used_by_[MemoryBudget::Index(use)] -= bytes;
  }

 private:
  enum class Full : std::uint8_t { kNothing, kShare, kUse, kAll };
  static bool Fits(std::uint64_t bytes, std::uint64_t used, std::uint64_t limit) {
    return used <= limit && bytes <= limit - used;
  }
  Full WhatIsFull(MemoryUse use, std::uint64_t bytes) const {
    if (!Fits(bytes, used_, budget_->share_max())) return Full::kShare;
    if (!Fits(bytes, budget_->used(use), budget_->limit(use))) return Full::kUse;
    return Fits(bytes, budget_->used_, budget_->bytes_max_) ? Full::kNothing : Full::kAll;
  }

  std::shared_ptr<MemoryBudget> budget_;
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
