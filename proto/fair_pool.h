// A countable resource that the users of a host share, so that none of them can take it from the others. Pure.
//
//   rule          a user may hold three quarters of what the others leave. (In switches, where such a rule shares
//                 packet buffers, it is a dynamic threshold.) So a user alone gets most of it, and a newcomer finds a
//                 quarter of what was free, until several user ids together have taken all
//   reservation   what a user has held within the last kKeep is reserved for it, and others leave it. So nobody who
//                 comes makes a user fail that only frees and takes again what it had before
//   its end       time, or Forget, when the user has left. Holding more than it needs gives a user nothing that
//                 holding it in use would not
//   floor         none: user ids are not bounded, so what each is guaranteed would be next to nothing
//   no limit      root and the daemon's own user may hold all that the others leave
//
// Invariant: the reservations together are at most the total, so what is reserved is always there to be taken.
//
// Counts only: callers take before they allocate, and give back afterwards. Bounded: one entry for each user who holds
// something, or has within kKeep. Threads: one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "proto/check.h"
#include "proto/clock.h"

namespace ringway {

// Who holds something: a user of this host, as the kernel names it.
struct HostUser {
  std::uint32_t uid = 0;
  bool is_limited = false;
};

class FairPool {
 public:
  static constexpr Duration kKeep = std::chrono::minutes(1);

  // Returns what a user may hold where the others leave `left`. It is never 0 while anything is left.
  static constexpr std::uint64_t ShareOf(std::uint64_t left) { return left - left / 4; }

  explicit FairPool(std::uint64_t total) : total_(total) {}

  std::uint64_t total() const { return total_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t used(const HostUser& user) const { return EntryOf(user).used; }
  // Returns what the user holds, or held recently.
  std::uint64_t reserved(const HostUser& user) const { return EntryOf(user).reserved(); }
  // Returns what the user may hold now, including what it holds already.
  std::uint64_t limit(const HostUser& user) const {
    const std::uint64_t own = reserved(user);
    const std::uint64_t left = total_ - (reserved_ - own);
    return std::max(own, user.is_limited ? ShareOf(left) : left);
  }
  bool Fits(const HostUser& user, std::uint64_t amount) const { return amount <= limit(user) - used(user); }

  [[nodiscard]] bool TryTake(const HostUser& user, std::uint64_t amount) {
    if (!Fits(user, amount)) return false;
    if (amount == 0) return true;
    Entry& entry = users_[user.uid];
    reserved_ -= entry.reserved();
    entry.used += amount;
    entry.most_now = std::max(entry.most_now, entry.used);
    reserved_ += entry.reserved();
    used_ += amount;
    return true;
  }
  // The amount stays reserved. REQUIRES: taken before.
  void Give(const HostUser& user, std::uint64_t amount) {
    if (amount == 0) return;
    const auto found = users_.find(user.uid);
    RINGWAY_CHECK(found != users_.end() && amount <= found->second.used);
    found->second.used -= amount;
    used_ -= amount;
  }

  // Ends reservations that are older than kKeep, within another kKeep. To be called often.
  void Age(TimePoint now) {
    if (now - aged_ < kKeep) return;
    aged_ = now;
    for (auto& [uid, entry] : users_) {
      reserved_ -= entry.reserved();
      entry.most_before = std::exchange(entry.most_now, entry.used);
      reserved_ += entry.reserved();
    }
    std::erase_if(users_, [](const auto& user) { return user.second.reserved() == 0; });
  }
  // Ends the user's reservation at once; what it holds stays its own.
  void Forget(const HostUser& user) {
    const auto found = users_.find(user.uid);
    if (found == users_.end()) return;
    const std::uint64_t used = found->second.used;
    reserved_ -= found->second.reserved() - used;
    found->second = {.used = used, .most_now = used};
    if (used == 0) users_.erase(found);
  }

 private:
  struct Entry {
    std::uint64_t used = 0;
    std::uint64_t most_now = 0;     // since the last Age
    std::uint64_t most_before = 0;  // in the period before it
    std::uint64_t reserved() const { return std::max(most_now, most_before); }
  };
  Entry EntryOf(const HostUser& user) const {
    const auto found = users_.find(user.uid);
    return found == users_.end() ? Entry() : found->second;
  }

  std::uint64_t total_;
  std::uint64_t used_ = 0;
  std::uint64_t reserved_ = 0;
  std::map<std::uint32_t, Entry> users_;
  TimePoint aged_{};
};

// RAII: what a user holds of a pool, given back when this goes or is reset. With the last one the user's reservation
// ends.
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
    const auto pool = std::move(pool_);
    if (pool == nullptr) return;
    pool->Give(user_, amount_);
    if (pool->used(user_) == 0) pool->Forget(user_);
  }

 private:
  std::shared_ptr<FairPool> pool_;
  HostUser user_;
  std::uint64_t amount_ = 0;
};

}  // namespace ringway
