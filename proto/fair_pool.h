// A countable resource that the users of a host share, so that none of them can take it from the others. Pure.
//
// The rule: a user may hold three quarters of what the others leave. A user alone gets most of it, and a newcomer finds
// a quarter of what was free, until several user ids together have taken all. (In switches, where such a rule shares
// packet buffers, it is a dynamic threshold.) Root and the daemon's own user are counted, but not limited.
//
// Counts only: callers take before they allocate, and give back afterwards. Bounded: one entry for each user who holds
// something. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "proto/check.h"

namespace ringway {

// Who holds something: a user of this host, as the kernel names it.
struct HostUser {
  std::uint32_t uid = 0;
  bool is_limited = false;
};

class FairPool {
 public:
  // What a user may hold where the others leave `left`. Never 0 while anything is left.
  static constexpr std::uint64_t ShareOf(std::uint64_t left) { return left - left / 4; }

  explicit FairPool(std::uint64_t total) : total_(total) {}

  std::uint64_t total() const { return total_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t used(const HostUser& user) const {
    const auto found = used_by_.find(user.uid);
    return found == used_by_.end() ? 0 : found->second;
  }
  // What the user may hold now, with what it holds already.
  std::uint64_t limit(const HostUser& user) const {
    const std::uint64_t left = total_ - (used_ - used(user));
    return user.is_limited ? ShareOf(left) : left;
  }
  bool Fits(const HostUser& user, std::uint64_t amount) const {
    const std::uint64_t held = used(user);
    const std::uint64_t max = limit(user);
    return held <= max && amount <= max - held;
  }

  [[nodiscard]] bool TryTake(const HostUser& user, std::uint64_t amount) {
    if (!Fits(user, amount)) return false;
    if (amount == 0) return true;
    used_by_[user.uid] += amount;
    used_ += amount;
    return true;
  }
  // REQUIRES: taken before.
  void Give(const HostUser& user, std::uint64_t amount) {
    if (amount == 0) return;
    const auto found = used_by_.find(user.uid);
    RINGWAY_CHECK(found != used_by_.end() && amount <= found->second);
    found->second -= amount;
    used_ -= amount;
    if (found->second == 0) used_by_.erase(found);
  }

 private:
  std::uint64_t total_;
  std::uint64_t used_ = 0;
  std::map<std::uint32_t, std::uint64_t> used_by_;
};

// RAII: what a user holds of a pool, given back when this goes or is reset.
class PoolCharge {
 public:
  PoolCharge() = default;
  // REQUIRES: the amount has been taken.
  PoolCharge(std::shared_ptr<FairPool> pool, const HostUser& user, std::uint64_t amount)
      : pool_(std::move(pool)), user_(user), amount_(amount) {}
  ~PoolCharge() { Reset(); }
  PoolCharge(PoolCharge&& other) noexcept : pool_(std::move(other.pool_)), user_(other.user_), amount_(other.amount_) {}
  PoolCharge& operator=(PoolCharge&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(user_, other.user_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  PoolCharge(const PoolCharge&) = delete;
  PoolCharge& operator=(const PoolCharge&) = delete;

  void Reset() {
    if (const auto pool = std::move(pool_)) pool->Give(user_, amount_);
  }

 private:
  std::shared_ptr<FairPool> pool_;
  HostUser user_;
  std::uint64_t amount_ = 0;
};

}  // namespace ringway
