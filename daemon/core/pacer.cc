#include "daemon/core/pacer.h"

#include <algorithm>
#include <utility>

namespace ringway::core {
namespace {

constexpr Duration kWindowMin = std::chrono::milliseconds(200);
constexpr Duration kNearby = std::chrono::milliseconds(1);

double Grown(std::uint64_t before, std::uint64_t now) { return now > before ? static_cast<double>(now - before) : 0; }

}  // namespace

std::optional<Ceiling::Window> Pacer::Measure::Tick(TimePoint now, double delivered, double resent, Duration queueing,
                                                    Duration round_trip, bool hasty) {
  if (!busy_since_) busy_since_ = now;
  if (!start_) {
    if (now - *busy_since_ >= round_trip) start_ = now;
    return std::nullopt;
  }
  delivered_ += delivered;
  resent_ += resent;
  queueing_ += queueing;
  ++ticks_;
  const Duration lasted = now - *start_;
  if (lasted < (hasty ? round_trip : std::max(kWindowMin, 2 * round_trip))) return std::nullopt;
  const double seconds = std::chrono::duration<double>(lasted).count();
  const Ceiling::Window window{.delivered = delivered_ / seconds,
                               .lost_share = resent_ > 0 ? resent_ / (delivered_ + resent_) : 0,
                               .queueing = queueing_ / ticks_,
                               .round_trip = round_trip};
  start_ = now;
  delivered_ = resent_ = 0;
  queueing_ = {};
  ticks_ = 0;
  return window;
}

bool Pacer::IsNearby(const PathSample& sample) { return sample.round_trip < kNearby; }
bool Pacer::IsPaced(const PathSample& sample) { return sample.backlogged && !IsNearby(sample); }

void Pacer::Add(PeerId self, const PathSample& sample) {
  Path& path = paths_[{.self = self, .other = sample.other}];
  if (path.was_sampled) {  // else it may have moved anything meanwhile
    path.delivered = Grown(path.last.delivered_bytes, sample.delivered_bytes);
    path.resent = Grown(path.last.resent_bytes, sample.resent_bytes);
  }
  path.last = sample;
  path.sampled = true;
}

void Pacer::Decide(TimePoint now) {
  std::vector<Path*> backlogged;
  for (auto& [key, path] : paths_) {
    path.was_sampled = std::exchange(path.sampled, false);
    if (!path.was_sampled) path.last.backlogged = false;
    if (IsPaced(path.last))
      backlogged.push_back(&path);
    else
      path.measure.Stop();
  }
  JudgeUplink(now, backlogged);
  Deal(std::move(backlogged));
  for (auto& [key, path] : paths_) path.delivered = path.resent = 0;
}

void Pacer::JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged) {
  Duration common = Duration::max();
  Duration longest{};
  for (const Path* path : backlogged) {
    common = std::min(common, path->last.queueing);
    longest = std::max(longest, path->last.round_trip);
  }
  if (backlogged.size() < 2) {
    uplink_measure_.Stop();
    common = {};
  } else {
    double delivered = 0;
    double resent = 0;
    for (const auto& [key, path] : paths_) {
      if (IsNearby(path.last)) continue;
      delivered += path.delivered;
      resent += path.resent;
    }
    if (const auto window = uplink_measure_.Tick(now, delivered, resent, common, longest, uplink_.limit() <= 0))
      uplink_.Judge(*window);
  }
  for (Path* path : backlogged) {
    const auto window = path->measure.Tick(now, path->delivered, path->resent, path->last.queueing - common,
                                           path->last.round_trip, path->ceiling.limit() <= 0);
    if (window) path->ceiling.Judge(*window);
  }
}

// Those that take the least first: what they leave of their parts is shared by the rest.
void Pacer::Deal(std::vector<Path*> backlogged) {
  const auto lesser = [](double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); };
  const double joining = uplink_.limit() / static_cast<double>(backlogged.size() + 1);
  for (auto& [key, path] : paths_) {
    path.rate = path.ceiling.limit();
    if (!IsPaced(path.last) && !IsNearby(path.last)) path.rate = lesser(path.rate, joining);
  }
  if (uplink_.limit() <= 0 || backlogged.size() < 2) return;
  for (Path* path : backlogged) path->rate = lesser(path->rate, uplink_.limit());
  std::sort(backlogged.begin(), backlogged.end(), [](const Path* a, const Path* b) { return a->rate < b->rate; });
  double left = uplink_.limit();
  std::size_t sharers = backlogged.size();
  for (Path* path : backlogged) {
    path->rate = std::min(path->rate, left / static_cast<double>(sharers--));
    left -= path->rate;
  }
}

void Pacer::Forget(PeerId self, std::optional<PeerId> other) {
  std::erase_if(paths_,
                [&](const auto& entry) { return entry.first.self == self && (!other || entry.first.other == *other); });
}

double Pacer::rate(const PathKey& path) const {
  const auto found = paths_.find(path);
  return found == paths_.end() ? 0 : found->second.rate;
}

}  // namespace ringway::core
