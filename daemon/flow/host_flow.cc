#include "daemon/flow/host_flow.h"

#include <algorithm>
#include <utility>

#include "proto/lane_roles.h"

namespace ringway::flow {
namespace {

constexpr Duration kPaceWindowMin = std::chrono::milliseconds(200);
constexpr double kWellBelow = 0.8;

double Grown(std::uint64_t before, std::uint64_t now) { return now > before ? static_cast<double>(now - before) : 0; }

}  // namespace

std::optional<RateLimit::Window> HostFlow::Measure::Tick(TimePoint now, const Tally& tally, Duration round_trip,
                                                         bool hasty) {
  if (!busy_since_) busy_since_ = now;
  if (!last_) {
    if (now - *busy_since_ >= round_trip) last_ = now;
    return std::nullopt;
  }
  lasted_ += now - std::exchange(*last_, now);
  sum_.delivered += tally.delivered;
  sum_.resent += tally.resent;
  sum_.queueing += tally.queueing;
  held_ticks_ += tally.held;
  ++ticks_;
  if (lasted_ < (hasty ? round_trip : std::max(kPaceWindowMin, 2 * round_trip))) return std::nullopt;
  const RateLimit::Window window{.delivered = sum_.delivered / std::chrono::duration<double>(lasted_).count(),
                                 .lost_share = sum_.resent > 0 ? sum_.resent / (sum_.delivered + sum_.resent) : 0,
                                 .queueing = sum_.queueing / ticks_,
                                 .round_trip = round_trip,
                                 .held = 2 * held_ticks_ > ticks_};
  lasted_ = {};
  sum_ = {};
  ticks_ = held_ticks_ = 0;
  return window;
}

void HostFlow::Judged::Tick(TimePoint now, const Tally& tally, Duration round_trip) {
  if (const auto window = measure.Tick(now, tally, round_trip, !ceiling.known())) ceiling.Judge(*window);
}

void HostFlow::Judged::Rest() {
  measure.Pause();
  ceiling.Rest();
}

bool HostFlow::IsNearby(const PathSample& sample) { return sample.round_trip < kNearby; }
bool HostFlow::IsPaced(const PathSample& sample) { return sample.backlogged && !IsNearby(sample); }

void HostFlow::Add(PeerId self, const PathSample& sample) {
  Path& path = paths_[{.self = self, .other = sample.other}];
  if (path.was_sampled) {  // else it may have moved anything meanwhile
    path.tally.delivered = Grown(path.last.delivered_bytes, sample.delivered_bytes);
    path.tally.resent = Grown(path.last.resent_bytes, sample.resent_bytes);
  }
  path.tally.queueing = sample.queueing;
  path.tally.held = sample.held;
  path.last = sample;
  path.sampled = true;
}

void HostFlow::Decide(TimePoint now) {
  std::vector<Path*> backlogged;
  for (auto& [key, path] : paths_) {
    path.was_sampled = std::exchange(path.sampled, false);
    if (!path.was_sampled) path.last.backlogged = false;
    if (IsPaced(path.last)) {
      backlogged.push_back(&path);
    } else {
      path.judged.Rest();
    }
  }
  const Duration uplink_queueing = JudgeUplink(now, backlogged);
  for (Path* path : backlogged) {
    path->tally.queueing -= uplink_queueing;
    path->judged.Tick(now, path->tally, path->last.round_trip);
  }
  const double limit = uplink_.ceiling.limit();
  uplink_pace_.SetRate(limit > 0 ? limit : BestPath());
  for (auto& [key, path] : paths_) path.tally = {};
}

bool HostFlow::ArePathsTheLimit(const std::vector<Path*>& backlogged) const {
  double together = 0;
  for (const Path* path : backlogged) {
    if (!path->judged.ceiling.known()) return false;
    together += path->judged.ceiling.limit();
  }
  return uplink_.ceiling.known() && together < uplink_.ceiling.limit();
}

bool HostFlow::IsHeldBelow(const Path& path, double part) {
  return path.judged.ceiling.known() && path.judged.ceiling.limit() < kWellBelow * part;
}

Duration HostFlow::JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged) {
  if (backlogged.size() < 2 || ArePathsTheLimit(backlogged)) {
    uplink_.Rest();
    return {};
  }
  if (!uplink_.ceiling.known()) {
    if (const double best = BestPath(); best > uplink_.ceiling.limit()) uplink_.ceiling.Assume(best);
  }
  const double part = uplink_.ceiling.limit() / static_cast<double>(backlogged.size());
  Tally all{.queueing = Duration::max()};
  Duration longest{};
  for (const Path* path : backlogged) {
    all.held = all.held || path->last.held_by_uplink;
    all.queueing = std::min(all.queueing, path->tally.queueing);
    longest = std::max(longest, path->last.round_trip);
  }
  for (const auto& [key, path] : paths_) {
    if (IsNearby(path.last)) continue;
    all.delivered += path.tally.delivered;
    if (!IsHeldBelow(path, part)) all.resent += path.tally.resent;
  }
  uplink_.Tick(now, all, longest);
  return all.queueing;
}

bool HostFlow::IsNearby(const PathKey& path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() || IsNearby(found->second.last);
}

Duration HostFlow::Wait(const PathKey& path, TimePoint now) {
  return IsNearby(path) ? Duration() : uplink_pace_.Wait(path, now);
}

void HostFlow::OnSent(const PathKey& path, double bytes, bool aside, TimePoint now) {
  if (IsNearby(path)) return;
  if (aside)
    uplink_pace_.OnSentAside(bytes);
  else
    uplink_pace_.OnSent(path, bytes, now);
}

double HostFlow::BestPath() const {
  double best = 0;
  for (const auto& [key, path] : paths_) {
    const RateLimit& ceiling = path.judged.ceiling;
    if (!IsNearby(path.last)) best = std::max(best, ceiling.limit() > 0 ? ceiling.limit() : ceiling.carries());
  }
  return best;
}

bool HostFlow::IsQuiet(PeerId self, TimePoint now) const {
  constexpr Duration kQuiet = std::chrono::milliseconds(500);
  const auto found = large_segments_.find(self);
  return found == large_segments_.end() || now - found->second > kQuiet;
}

void HostFlow::Forget(PeerId self, std::optional<PeerId> other) {
  if (!other) large_segments_.erase(self);
  std::erase_if(paths_,
                [&](const auto& entry) { return entry.first.self == self && (!other || entry.first.other == *other); });
}

double HostFlow::rate(const PathKey& path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() ? 0 : found->second.judged.ceiling.limit();
}

double HostFlow::limit(const PathKey& path) const {
  const double own = rate(path);
  return own > 0 || IsNearby(path) ? own : uplink_.ceiling.limit();
}

}  // namespace ringway::flow
