#include "daemon/flow/host_flow.h"

#include <algorithm>
#include <utility>

#include "proto/lane_roles.h"

namespace ringway::flow {
namespace {

constexpr Duration kPaceWindowMin = std::chrono::milliseconds(200);
constexpr double kWellBelow = 0.8;
constexpr Duration kSeenMin = std::chrono::milliseconds(20);
constexpr Duration kPause = std::chrono::seconds(1);  // congestion windows start over
constexpr Duration kLongAgo = std::chrono::seconds(10);

}  // namespace

void HostFlow::Judged::Add(TimePoint now, const Traffic& tick, Duration round_trip, bool few_lanes) {
  const bool nearby = round_trip < kNearby;
  const bool is_short = !nearby && !rate_limit.known();
  const Duration length = is_short ? round_trip : std::max(kPaceWindowMin, 2 * round_trip);
  const auto totals = window.Extend(now, tick, length, nearby ? Duration() : round_trip + tick.queueing);
  if (!totals) return;
  const Duration paused = judged_at ? now - *judged_at - totals->lasted : Duration();
  if (paused > kPause) rate_limit.OnPaused();
  if (paused > kLongAgo) rate_limit.Age();
  judged_at = now;
  is_new = true;
  const Traffic& sum = totals->sum;
  const RateLimit::Window judged{.given = totals->PerSecond(sum.given),
                                 .delivered = totals->PerSecond(sum.delivered),
                                 .lost_share = sum.resent > 0 ? sum.resent / (sum.delivered + sum.resent) : 0,
                                 .queueing = sum.queueing / totals->ticks,
                                 .standing = sum.standing / totals->ticks,
                                 .round_trip = round_trip,
                                 .held = totals->held(),
                                 .alone = sum.alone,
                                 .app_limited = sum.app_limited,
                                 .few_lanes = few_lanes};
  if (nearby)
    rate_limit.Observe(judged);
  else
    rate_limit.Judge(judged);
}

void HostFlow::Judged::Rest(TimePoint now, const Traffic& last) {
  const bool is_unknown = window.running() && !rate_limit.is_measured() && !rate_limit.assumed();
  if (const auto totals = is_unknown ? window.Unfinished(now, last, kSeenMin) : std::nullopt) {
    rate_limit.Raise(totals->PerSecond(totals->sum.delivered));
    is_new = true;
  }
  window.Pause();
  rate_limit.Rest();
}

bool HostFlow::IsNearby(const PathSample& sample) { return sample.round_trip < kNearby; }
bool HostFlow::IsPaced(const PathSample& sample) { return sample.backlogged && !IsNearby(sample); }

void HostFlow::OnLinked(const PathKey& path, const std::string& host, Duration round_trip, TimePoint now) {
  const auto [at, added] = paths_.try_emplace(path, share_);
  if (!added) return;
  at->second.host = host;
  at->second.last.round_trip = round_trip;
  at->second.judged.rate_limit = memory_.Recall(host, now);
}

void HostFlow::Add(PeerId self, const PathSample& sample) {
  Path& path = paths_.try_emplace({.self = self, .other = sample.other}, share_).first->second;
  path.last = sample;
  path.sampled = true;
}

void HostFlow::Decide(TimePoint now) {
  std::vector<Path*> backlogged;
  std::vector<Path*> nearby;
  std::vector<Path*> judged;
  for (auto& [key, path] : paths_) {
    if (!std::exchange(path.sampled, false)) path.last.backlogged = path.last.unsent = false;
    if (IsPaced(path.last)) {
      backlogged.push_back(&path);
      judged.push_back(&path);
    } else if (path.last.unsent && !IsNearby(path.last) && path.judged.rate_limit.limit() <= 0) {
      judged.push_back(&path);
    } else if (path.last.backlogged) {
      nearby.push_back(&path);
    } else {
      path.judged.Rest(now, path.last.traffic);
    }
  }
  const Delays uplink = JudgeUplink(now, backlogged);
  for (Path* path : backlogged) {
    Traffic& tick = path->last.traffic;
    tick.queueing -= uplink.queueing;
    tick.standing = std::min(tick.standing - uplink.standing, tick.queueing);
  }
  JudgeNearby(now, nearby);
  const std::size_t sending = judged.size() + nearby.size();
  for (Path* path : judged) path->last.traffic.alone = judged.size() == 1;
  judged.insert(judged.end(), nearby.begin(), nearby.end());
  for (Path* path : judged) {
    const PathSample& last = path->last;
    const bool is_shared = sending > 1 && !IsBottleneck(*path, backlogged);
    path->last.traffic.alone = path->last.traffic.alone || (sending > 1 && !is_shared);
    path->last.traffic.app_limited = is_shared || !last.backlogged || last.held_by_uplink || last.receiver_limited;
    path->judged.Add(now, last.traffic, last.round_trip, !last.lanes_are_enough);
  }
  const double limit = uplink_.rate_limit.limit();
  uplink_share_.SetRate(limit > 0 ? limit : FastestPath());
  for (auto& [key, path] : paths_) path.last.traffic = {};
}

bool HostFlow::ArePathsTheLimit(const std::vector<Path*>& backlogged) const {
  double together = 0;
  for (const Path* path : backlogged) {
    if (!path->judged.rate_limit.known()) return false;
    together += path->judged.rate_limit.limit();
  }
  return uplink_.rate_limit.known() && together < uplink_.rate_limit.limit();
}

bool HostFlow::IsLimitedBelow(const Path& path, double fair_share) {
  return path.judged.rate_limit.known() && path.judged.rate_limit.limit() < kWellBelow * fair_share;
}

bool HostFlow::FallsShort(const Path& path) {
  const RateLimit& rate_limit = path.judged.rate_limit;
  return rate_limit.is_measured() && rate_limit.recent() > 0 && rate_limit.recent() < kWellBelow * rate_limit.carries();
}

bool HostFlow::DoAllFallShort(const std::vector<Path*>& backlogged) {
  return std::all_of(backlogged.begin(), backlogged.end(), [](const Path* path) { return FallsShort(*path); });
}

bool HostFlow::IsBottleneck(const Path& path, const std::vector<Path*>& backlogged) const {
  const RateLimit& uplink = uplink_.rate_limit;
  const bool has_room = uplink.recent() > 0 && uplink.recent() < kWellBelow * uplink.carries();
  return has_room && FallsShort(path) && !DoAllFallShort(backlogged);
}

HostFlow::Delays HostFlow::JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged) {
  if (backlogged.size() < 2 || ArePathsTheLimit(backlogged)) {
    uplink_.Rest(now, {});
    return {};
  }
  if (!uplink_.rate_limit.known()) {
    if (const double best = FastestPath(); best > uplink_.rate_limit.limit()) uplink_.rate_limit.AssumeSeen(best);
  }
  const double fair_share = uplink_.rate_limit.limit() / static_cast<double>(backlogged.size());
  Traffic all{.queueing = Duration::max(),
              .standing = Duration::max(),
              .app_limited = !uplink_.rate_limit.known() && !DoAllFallShort(backlogged)};
  bool few_lanes = false;
  Duration longest{};
  for (const Path* path : backlogged) {
    all.held = all.held || path->last.held_by_uplink;
    few_lanes = few_lanes || !path->last.lanes_are_enough;
    all.queueing = std::min(all.queueing, path->last.traffic.queueing);
    all.standing = std::min(all.standing, path->last.traffic.standing);
    longest = std::max(longest, path->last.round_trip);
  }
  for (const auto& [key, path] : paths_) {
    if (IsNearby(path.last)) continue;
    all.given += path.last.traffic.given;
    all.delivered += path.last.traffic.delivered;
    if (!IsLimitedBelow(path, fair_share)) all.resent += path.last.traffic.resent;
  }
  uplink_.Add(now, all, longest, few_lanes);
  return {.queueing = all.queueing, .standing = all.standing};
}

void HostFlow::JudgeNearby(TimePoint now, const std::vector<Path*>& backlogged) {
  Traffic all{.app_limited = true};
  for (const Path* path : backlogged) all.delivered += path->last.traffic.delivered;
  if (backlogged.size() < 2)
    nearby_.Rest(now, all);
  else
    nearby_.Add(now, all, Duration(), false);
}

Bandwidth HostFlow::TakeBandwidth(const PathKey& path) {
  const auto found = paths_.find(path);
  if (found == paths_.end() || !std::exchange(found->second.judged.is_new, false)) return {};
  const RateLimit& rate_limit = found->second.judged.rate_limit;
  return {.bytes_per_second = rate_limit.seen(), .is_measured = rate_limit.is_measured()};
}

Bandwidth HostFlow::UplinkBandwidth() const {
  const RateLimit& far = uplink_.rate_limit;
  const double carries = far.carries() > 0 ? far.seen() : nearby_.rate_limit.carries();
  return {.bytes_per_second = carries, .is_measured = far.known() || far.is_measured()};
}

bool HostFlow::IsNearby(const PathKey& path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() || IsNearby(found->second.last);
}

Duration HostFlow::Wait(const PathKey& path, TimePoint now) {
  return IsFree(path) ? Duration() : uplink_share_.Wait(path, now);
}

void HostFlow::OnSent(const PathKey& path, double bytes, bool bypasses, TimePoint now) {
  if (IsFree(path)) return;
  if (bypasses)
    uplink_share_.OnBypassed(bytes);
  else
    uplink_share_.OnSent(path, bytes, now);
}

void HostFlow::OnResent(const PathKey& path, double bytes) {
  if (!IsFree(path)) uplink_share_.OnResent(bytes);
}

double HostFlow::FastestPath() const {
  double best = 0;
  for (const auto& [key, path] : paths_) {
    const RateLimit& rate_limit = path.judged.rate_limit;
    if (!IsNearby(path.last)) best = std::max(best, rate_limit.known() ? rate_limit.limit() : rate_limit.carries());
  }
  return best;
}

bool HostFlow::IsQuiet(PeerId self, TimePoint now) const {
  constexpr Duration kQuiet = std::chrono::milliseconds(500);
  const auto found = large_segments_.find(self);
  return found == large_segments_.end() || now - found->second > kQuiet;
}

void HostFlow::Forget(PeerId self, std::optional<PeerId> other) {
  if (!other) {
    large_segments_.erase(self);
    uplink_share_.Forget(self);
  }
  std::erase_if(paths_, [&](const auto& entry) {
    const auto& [key, path] = entry;
    if (key.self != self || (other && key.other != *other)) return false;
    const Judged& judged = path.judged;
    if (judged.judged_at && !path.host.empty() && !IsNearby(path.last)) {
      memory_.Keep(path.host, judged.rate_limit, *judged.judged_at);
    }
    return true;
  });
}

double HostFlow::rate(const PathKey& path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() ? 0 : found->second.judged.rate_limit.limit();
}

double HostFlow::limit(const PathKey& path) const {
  const double own = rate(path);
  return own > 0 || IsNearby(path) ? own : uplink_.rate_limit.limit();
}

}  // namespace ringway::flow
