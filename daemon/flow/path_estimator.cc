#include "daemon/flow/path_estimator.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {
namespace {

// Rates, or round trips, within this ratio count as equal.
constexpr double kSameRateRatio = 1.25;
constexpr double kGrowth = 1.1;
constexpr Duration kShortest = std::chrono::milliseconds(20);
constexpr Duration kRateWindowMin = std::chrono::milliseconds(150);
constexpr double kInertia = 8;
constexpr Duration kRecent = std::chrono::minutes(5);
constexpr Duration kReportPause = std::chrono::seconds(1);

Duration WindowOf(Duration round_trip) { return std::max<Duration>(kRateWindowMin, round_trip * 3 / 2); }

// Differs by over a quarter and over a millisecond: less may be a queue in a host.
bool IsAnotherRoute(Duration reported, Duration now) {
  return reported != Duration() && std::max(reported, now) > kSameRateRatio * std::min(reported, now) &&
         std::max(reported, now) - std::min(reported, now) > std::chrono::milliseconds(1);
}

}  // namespace

// ---------------------------------------------------------------------------------------------- windows

std::optional<RateWindow::Measurement> RateWindow::Extend(TimePoint now, double bytes, Duration length) {
  const auto totals = window_.Extend(now, {.delivered = bytes}, length);
  if (!totals) return std::nullopt;
  const double rate = totals->PerSecond(totals->sum.delivered);
  const std::optional<double> before = std::exchange(before_, rate);
  if (rate > kGrowth * best_) {
    best_ = rate;
    flat_ = 0;
  } else {
    ++flat_;
  }
  if (!before || rate > *before * kSameRateRatio) return Measurement{.bytes_per_second = rate};
  return Measurement{
      .bytes_per_second = (*before + rate) / 2, .settled = true, .steady = rate * kSameRateRatio >= *before};
}

double RateWindow::Break(TimePoint now, double bytes) {
  const auto totals = running() ? window_.Extend(now, {.delivered = bytes}, kShortest) : std::nullopt;
  *this = {};
  return totals ? totals->PerSecond(totals->sum.delivered) : 0;
}

// ---------------------------------------------------------------------------------------------- estimates

void PathEstimator::Estimate::Settle(double measured) {
  weight = std::min(weight + 1, kInertia);
  rate += (measured - rate) / weight;
}

void PathEstimator::Estimate::Raise(double measured) {
  if (rate != 0 && measured > rate) Settle(measured);
}

std::optional<std::uint64_t> PathEstimator::Estimate::Report(TimePoint now, bool force) {
  const bool is_news = force || rate > reported * kSameRateRatio || rate * kSameRateRatio < reported;
  if (rate < 1 || !is_news || (reported != 0 && now - reported_at < kReportPause)) return std::nullopt;
  reported = rate;
  reported_at = now;
  return static_cast<std::uint64_t>(rate);
}

// ---------------------------------------------------------------------------------------------- round trips

void RecentShortest::Add(Duration sample, TimePoint now) {
  if (sample <= Duration()) return;
  if (now - since_ > kRecent) {
    before_ = now - since_ > 2 * kRecent ? Duration() : now_;
    now_ = {};
    since_ = now;
  }
  now_ = now_ == Duration() ? sample : std::min(now_, sample);
}

Duration RecentShortest::value() const { return before_ == Duration() ? now_ : std::min(now_, before_); }

// ---------------------------------------------------------------------------------------------- samples

void PathEstimator::Add(std::span<const PathSample> samples, TimePoint now) {
  std::set<PeerId> backlogged;
  double moved = 0;
  for (const PathSample& sample : samples) {
    Path& path = paths_[sample.other];
    path.round_trip.Add(sample.round_trip, now);
    if (sample.backlogged && !sample.receiver_limited) backlogged.insert(sample.other);
    moved += sample.traffic.delivered;
  }
  for (const PathSample& sample : samples) {
    Path& path = paths_.at(sample.other);
    if (backlogged.contains(sample.other)) {
      MeasurePath(path, sample, backlogged.size() == 1 && !sample.held_by_uplink, now);
    } else {
      path.at_least = std::max(path.at_least, path.window.Break(now, sample.traffic.delivered));
    }
  }
  MeasureUplink(backlogged, moved, now);
}

void PathEstimator::MeasurePath(Path& path, const PathSample& sample, bool alone, TimePoint now) {
  const bool was_alone = std::exchange(path.alone, alone) || !path.window.running();
  const auto measured = path.window.Extend(now, sample.traffic.delivered, WindowOf(path.round_trip.value()));
  if (!measured) {
    path.alone = was_alone && alone;
    return;
  }
  const double rate = measured->bytes_per_second;
  uplink_.Raise(rate);
  path.estimate.Raise(rate);
  if (was_alone && alone && (path.estimate.rate != 0 ? measured->settled : measured->steady)) {
    path.estimate.Settle(rate);
  } else {
    path.at_least = std::max(path.at_least, rate);
  }
}

void PathEstimator::MeasureUplink(const std::set<PeerId>& backlogged, double moved, TimePoint now) {
  if (backlogged.size() < 2 || backlogged != sharers_) {
    sharers_ = backlogged;
    uplink_window_ = {};
    if (backlogged.size() >= 2) (void)uplink_window_.Extend(now, moved, {});
    return;
  }
  Duration longest{};
  double paths_carry = 0;
  bool all_known = true;
  for (const PeerId other : sharers_) {
    const Path& path = paths_.at(other);
    longest = std::max(longest, path.round_trip.value());
    paths_carry += path.estimate.rate;
    all_known = all_known && path.estimate.rate != 0;
  }
  const auto measured = uplink_window_.Extend(now, moved, WindowOf(longest));
  if (!measured) return;
  uplink_at_least_ = std::max(uplink_at_least_, measured->bytes_per_second);
  if (!measured->settled || !all_known) return;
  uplink_.Raise(measured->bytes_per_second);
  if (paths_carry > kSameRateRatio * measured->bytes_per_second) uplink_.Settle(measured->bytes_per_second);
}

void PathEstimator::OnProbed(const std::set<PeerId>& others) {
  if (others.size() > 1) {
    if (uplink_.rate != 0 || uplink_at_least_ == 0) return;
    uplink_.rate = uplink_at_least_;
    for (const auto& [other, path] : paths_) uplink_.rate = std::max(uplink_.rate, path.estimate.rate);
    return;
  }
  for (const PeerId other : others) {
    const auto found = paths_.find(other);
    if (found != paths_.end() && found->second.estimate.rate == 0) found->second.estimate.rate = found->second.at_least;
  }
}

double PathEstimator::BestBeside(PeerId other) const {
  double best = 0;
  for (const auto& [peer, path] : paths_) {
    if (peer != other) best = std::max(best, path.estimate.rate);
  }
  return best;
}

bool PathEstimator::IsFlat(const std::set<PeerId>& probed) const {
  constexpr int kFlat = 2;
  constexpr double kNearlyBest = 0.9;
  if (probed.size() > 1) return sharers_ == probed && uplink_window_.flat() >= kFlat;
  return std::all_of(probed.begin(), probed.end(), [&](PeerId other) {
    const auto found = paths_.find(other);
    if (found == paths_.end()) return false;
    const RateWindow& window = found->second.window;
    const double best = BestBeside(other);
    return window.flat() >= (best > 0 && window.best() >= kNearlyBest * best ? 1 : kFlat);
  });
}

void PathEstimator::Recall(std::optional<PeerId> other, double rate) {
  Estimate& estimate = other ? paths_[*other].estimate : uplink_;
  if (estimate.rate == 0 && rate > 0) estimate.Settle(rate);
}

void PathEstimator::OnProbeBegins(const std::set<PeerId>& others) {
  for (const PeerId other : others) paths_[other].estimate.weight = std::min(paths_[other].estimate.weight, 1.0);
}

void PathEstimator::Adopt(PeerId other, double rate) {
  Estimate& estimate = paths_[other].estimate;
  estimate.rate = rate;
  estimate.weight = 1;
}

double PathEstimator::RateOf(PeerId other) const {
  const auto found = paths_.find(other);
  return found == paths_.end() ? 0 : found->second.estimate.rate;
}

void PathEstimator::Forget(PeerId other) {
  paths_.erase(other);
  if (sharers_.contains(other)) sharers_.clear();
}

std::vector<PathReport> PathEstimator::TakeReports(TimePoint now) {
  std::vector<PathReport> reports;
  for (auto& [other, path] : paths_) {
    const Duration round_trip = path.round_trip.value();
    const bool rerouted = IsAnotherRoute(path.reported_round_trip, round_trip);
    const auto rate = path.estimate.Report(now, rerouted);
    if (!rate) continue;
    path.reported_round_trip = round_trip;
    reports.push_back({.other = other, .bytes_per_second = *rate, .round_trip = round_trip, .rerouted = rerouted});
  }
  if (const auto rate = uplink_.Report(now)) reports.push_back({.other = {}, .bytes_per_second = *rate});
  return reports;
}

void PathEstimator::Repeat() {
  uplink_.reported = 0;
  for (auto& [other, path] : paths_) path.estimate.reported = 0;
}

}  // namespace ringway::flow
