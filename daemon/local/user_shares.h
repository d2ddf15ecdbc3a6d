// Shares the daemon's resources among the users of this host, so that none takes them from the others. Pure.
//
//   resource      rule                                                    where it is refused
//   sessions      a FairPool                                              at the connection
//   descriptors   a FairPool: two a session, one a region                 at the connection; the region's operations
//   memory        a FairPool (MemoryBudget)                               the region's operations
//   joins         a token bucket: kJoinsAtOnce, then one a kJoinPeriod    nowhere: a join waits for its turn
//   log lines     a LogBudget of each user                                left out, and counted
//
// Root and the daemon's own user have no limits of their own.
//
// Threads: one (data thread). Bounded: pools know users that hold something, the rest at most kUsersMax; beyond that
// the user who has rested longest is forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/fair_pool.h"
#include "proto/log_budget.h"
#include "proto/result.h"

namespace ringway::local {

struct UserLimits {
  std::uint64_t sessions = 1024;
  std::uint64_t descriptors = std::uint64_t{1} << 20;  // for sessions and their regions
  std::set<std::uint32_t> unlimited = {0};             // users
};

class UserShares {
 public:
  // 64 trainers that come back at once, with 8 groups each: every one is a session of its own.
  static constexpr std::int64_t kJoinsAtOnce = 512;
  static constexpr Duration kJoinPeriod = std::chrono::milliseconds(250);
  static constexpr std::int64_t kLinesAtOnce = 500;
  static constexpr Duration kLinePeriod = std::chrono::milliseconds(200);
  static constexpr std::size_t kUsersMax = 4096;

  explicit UserShares(UserLimits limits)
      : unlimited_(std::move(limits.unlimited)),
        sessions_(std::make_shared<FairPool>(limits.sessions)),
        descriptors_(std::make_shared<FairPool>(limits.descriptors)) {}

  HostUser UserOf(std::uint32_t uid) const { return {.uid = uid, .is_limited = !unlimited_.contains(uid)}; }
  const FairPool& sessions() const { return *sessions_; }
  const FairPool& descriptors() const { return *descriptors_; }

  // kResourceExhausted with what the user has, and of what.
  Result<PoolCharge> TakeSession(const HostUser& user) { return Take(sessions_, user, 1, "sessions"); }
  Result<PoolCharge> TakeDescriptors(const HostUser& user, std::uint64_t count) {
    return Take(descriptors_, user, count, "descriptors");
  }

  // Ages the reservations. To be called often.
  void Age(TimePoint now) {
    sessions_->Age(now);
    descriptors_->Age(now);
  }

  // Returns how long a join of the user that comes now has to wait; its turn is kept for it.
  Duration TakeJoin(const HostUser& user, TimePoint now) {
    if (!user.is_limited) return {};
    TimePoint& full = joins_full_[user.uid];
    full = std::max(full, now) + kJoinPeriod;
    const Duration wait = full - now - kJoinsAtOnce * kJoinPeriod;
    Bound(joins_full_, [](TimePoint at) { return at; });
    return std::max(wait, Duration());
  }
  // Frees the turn of a join that ended before its turn came.
  void ReturnJoin(const HostUser& user) {
    if (const auto found = joins_full_.find(user.uid); found != joins_full_.end()) found->second -= kJoinPeriod;
  }

  // If a line about the user may be written now, returns how many were left out since the last one.
  std::optional<std::uint64_t> TakeLine(const HostUser& user, TimePoint now) {
    if (!user.is_limited) return 0;
    Lines& lines = lines_.try_emplace(user.uid).first->second;
    lines.last = now;
    const auto left_out = lines.budget.Take(now);
    Bound(lines_, [](const Lines& one) { return one.last; });
    return left_out;
  }
  // Users whose lines were left out and that may have one about it now, each with their number.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> TakeLineSummaries(TimePoint now) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> left_out;
    for (auto& [uid, lines] : lines_) {
      if (const auto count = lines.budget.TakeSummary(now)) left_out.emplace_back(uid, *count);
    }
    std::erase_if(lines_, [](const auto& entry) { return entry.second.budget.IsFresh(); });
    std::erase_if(joins_full_, [now](const auto& entry) { return entry.second <= now; });
    return left_out;
  }

 private:
  struct Lines {
    LogBudget budget{kLinesAtOnce, kLinePeriod};
    TimePoint last{};
  };

  static Result<PoolCharge> Take(const std::shared_ptr<FairPool>& pool, const HostUser& user, std::uint64_t amount,
                                 const std::string& what) {
    if (pool->TryTake(user, amount)) return PoolCharge(pool, user, amount);
    const bool is_full = pool->total() - pool->used() < amount;
    const std::string share = is_full ? "all users have " + std::to_string(pool->used()) + " of the "
                                      : "user " + std::to_string(user.uid) + " has " +
                                            std::to_string(pool->used(user)) + ", its share of the ";
    return Status(Code::kResourceExhausted, share + std::to_string(pool->total()) + " " + what +
                                                " that this daemon has for trainers: free buffers, or end sessions");
  }

  template <typename Map, typename When>
  static void Bound(Map& map, const When& when) {
    if (map.size() <= kUsersMax) return;
    map.erase(std::min_element(map.begin(), map.end(),
                               [&](const auto& a, const auto& b) { return when(a.second) < when(b.second); }));
  }

  std::set<std::uint32_t> unlimited_;
  std::shared_ptr<FairPool> sessions_;
  std::shared_ptr<FairPool> descriptors_;
  std::map<std::uint32_t, TimePoint> joins_full_;  // when the user's bucket is full again
  std::map<std::uint32_t, Lines> lines_;
};

}  // namespace ringway::local
