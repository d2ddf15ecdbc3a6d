#include "daemon/agreement/path_reports.h"

#include <algorithm>
#include <utility>

namespace ringway::agreement {
namespace {

// Rates, or round trips, within this ratio count as equal.
constexpr double kSameRateRatio = 1.25;
constexpr Duration kRecent = std::chrono::minutes(5);
constexpr Duration kReportPause = std::chrono::seconds(1);
constexpr Duration kPasses = std::chrono::seconds(3);
constexpr Duration kPause = std::chrono::seconds(1);
constexpr double kColdRoundTrips = 32;
constexpr double kColdBytesMax = 64 << 20;

bool IsCold(const flow::PathSample& sample) {
  const double of_round_trip =
      sample.bandwidth.bytes_per_second * std::chrono::duration<double>(sample.round_trip).count();
  return static_cast<double>(sample.carried) < std::min(kColdRoundTrips * of_round_trip, kColdBytesMax);
}

// Differs by over a quarter and over a millisecond: less may be a queue in a host.
bool IsAnotherRoute(Duration reported, Duration now) {
  return reported != Duration() && std::max(reported, now) > kSameRateRatio * std::min(reported, now) &&
         std::max(reported, now) - std::min(reported, now) > std::chrono::milliseconds(1);
}

}  // namespace

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

// ---------------------------------------------------------------------------------------------- rates

void PathReports::Rate::Add(const flow::Bandwidth& bandwidth, TimePoint now) {
  const double rate = bandwidth.bytes_per_second;
  if (!bandwidth.is_measured) {
    at_least = std::max(at_least, rate);
    if (known > 0) known = std::max(known, rate);
    return;
  }
  measured = rate;
  const TimePoint before = std::exchange(measured_at, now);
  if (before != TimePoint() && now - before > kPause) reached_at += now - before;
  if (rate < known && now - reached_at < kPasses) return;
  known = rate;
  reached_at = now;
}

std::optional<std::uint64_t> PathReports::Reported::Take(double known, TimePoint now, bool force) {
  const bool is_news = force || known > rate * kSameRateRatio || known * kSameRateRatio < rate;
  if (known < 1 || !is_news || (rate != 0 && now - at < kReportPause)) return std::nullopt;
  rate = known;
  at = now;
  return static_cast<std::uint64_t>(known);
}

// ---------------------------------------------------------------------------------------------- paths

void PathReports::Add(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink, TimePoint now) {
  for (const flow::PathSample& sample : samples) {
    Path& path = paths_[sample.other];
    path.round_trip.Add(sample.round_trip, now);
    const bool is_measured = sample.bandwidth.is_measured && !IsCold(sample);
    path.rate.Add({.bytes_per_second = sample.bandwidth.bytes_per_second, .is_measured = is_measured}, now);
  }
  uplink_.Add(uplink, now);
}

void PathReports::OnProbed(const std::set<PeerId>& others) {
  if (others.size() > 1) {
    if (uplink_.known > 0 || uplink_.at_least <= 0) return;
    uplink_.known = uplink_.at_least;
    for (const auto& [other, path] : paths_) uplink_.known = std::max(uplink_.known, path.rate.known);
    return;
  }
  for (const PeerId other : others) {
    Rate& rate = paths_[other].rate;
    if (rate.measured > 0)
      rate.known = rate.measured;
    else if (rate.known <= 0)
      rate.known = rate.at_least;
  }
}

void PathReports::Recall(std::optional<PeerId> other, double rate) {
  Rate& recalled = other ? paths_[*other].rate : uplink_;
  if (recalled.known == 0) recalled.known = rate;
}

double PathReports::RateOf(PeerId other) const {
  const auto found = paths_.find(other);
  return found == paths_.end() ? 0 : found->second.rate.known;
}

std::vector<PathReport> PathReports::Take(TimePoint now) {
  std::vector<PathReport> reports;
  for (auto& [other, path] : paths_) {
    const Duration round_trip = path.round_trip.value();
    const bool rerouted = IsAnotherRoute(path.reported_round_trip, round_trip);
    const auto rate = path.reported.Take(path.rate.known, now, rerouted);
    if (!rate) continue;
    path.reported_round_trip = round_trip;
    reports.push_back({.other = other, .bytes_per_second = *rate, .round_trip = round_trip, .rerouted = rerouted});
  }
  if (const auto rate = uplink_reported_.Take(uplink_.known, now)) {
    reports.push_back({.other = {}, .bytes_per_second = *rate});
  }
  return reports;
}

void PathReports::Repeat() {
  uplink_reported_.rate = 0;
  for (auto& [other, path] : paths_) path.reported.rate = 0;
}

}  // namespace ringway::agreement
