#include "master/planning/path_matrix.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "proto/check.h"

namespace ringway {
namespace {

constexpr double kSameRates = 1.25;
constexpr std::size_t kShowDownlink = 3;  // two are alike by chance

double Checked(double value) {
  RINGWAY_CHECK(std::isfinite(value) && value >= 0);
  return value;
}

// The lower median of those that are known; 0 if none is.
double MedianOfKnown(std::vector<double> values) {
  std::erase(values, 0.0);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Visits the paths between hosts.
template <typename Visit>
void ForEachFarPath(const PathMatrix& paths, const Visit& visit) {
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (!paths.shares_host(from, to)) visit(from, to);
  });
}

void FillDelays(const PathMatrix& measured, PathMatrix& filled) {
  std::vector<double> delays;
  ForEachFarPath(measured, [&](std::uint32_t from, std::uint32_t to) { delays.push_back(measured.delay(from, to)); });
  const double median = MedianOfKnown(std::move(delays));
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (measured.delay(from, to) != 0) return;
    const double reverse = measured.delay(to, from);
    const double assumed = measured.shares_host(from, to) ? kAssumedHostDelay : median;
    filled.set_delay(from, to, reverse != 0 ? reverse : assumed);
  });
}

void FillRates(const PathMatrix& measured, PathMatrix& filled) {
  std::vector<double> rates;
  ForEachFarPath(measured, [&](std::uint32_t from, std::uint32_t to) { rates.push_back(measured.LinkRate(from, to)); });
  const double median = MedianOfKnown(std::move(rates));
  const double far = median != 0 ? median : kAssumedRate;
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (measured.rate(from, to) != 0) return;
    const double known = measured.LinkRate(from, to);
    const double assumed = measured.shares_host(from, to) ? kAssumedHostRate : far;
    filled.set_rate(from, to, known != 0 ? known : assumed);
  });
}

// The rates of a host's uplink and downlink, and the best ones of its paths.
struct Ends {
  double uplink = 0, downlink = 0;     // measured
  double leaving = 0, entering = 0;    // the best rate of its paths
  std::vector<std::uint32_t> limited;  // peers that send it as much as any, and have sent faster to others
};

// REQUIRES: the rates of `filled` are filled.
void FillEnds(const PathMatrix& measured, PathMatrix& filled) {
  std::map<std::uint32_t, Ends> hosts;
  for (std::size_t peer = 0; peer < measured.size(); ++peer) {
    Ends& ends = hosts[measured.host(peer)];
    ends.uplink = std::max(ends.uplink, measured.uplink(peer));
    ends.downlink = std::max(ends.downlink, measured.downlink(peer));
  }
  ForEachFarPath(measured, [&](std::uint32_t from, std::uint32_t to) {
    for (double* best : {&hosts[measured.host(from)].leaving, &hosts[measured.host(to)].entering}) {
      *best = std::max(*best, filled.rate(from, to));
    }
  });
  ForEachFarPath(measured, [&](std::uint32_t from, std::uint32_t to) {
    const double rate = kSameRates * filled.rate(from, to);
    Ends& ends = hosts[measured.host(to)];
    if (rate < ends.entering || rate >= hosts[measured.host(from)].leaving) return;
    // Neighbours may share the rest of the way, too.
    const bool is_apart = std::none_of(ends.limited.begin(), ends.limited.end(), [&](std::uint32_t other) {
      return measured.shares_host(from, other) || filled.delay(from, other) < filled.delay(from, to) / 4;
    });
    if (is_apart) ends.limited.push_back(from);
  });
  for (std::size_t peer = 0; peer < measured.size(); ++peer) {
    const Ends& ends = hosts[measured.host(peer)];
    const double assumed = ends.limited.size() >= kShowDownlink ? ends.entering : std::max(ends.entering, ends.uplink);
    filled.set_uplink(peer, ends.uplink != 0 ? ends.uplink : ends.leaving);
    filled.set_downlink(peer, ends.downlink != 0 ? ends.downlink : assumed);
  }
}

// REQUIRES: rates and ends of `filled` are filled.
void FillSites(const PathMatrix& measured, PathMatrix& filled) {
  std::map<std::uint32_t, double> best;
  std::map<std::uint32_t, std::set<std::uint32_t>> hosts;
  for (std::size_t peer = 0; peer < measured.size(); ++peer) hosts[measured.site(peer)].insert(measured.host(peer));
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (!measured.crosses(from, to)) return;
    double& rate = best[measured.site(from)];
    rate = std::max(rate, filled.LinkRate(from, to));
  });
  for (std::size_t peer = 0; peer < measured.size(); ++peer) {
    const auto found = best.find(measured.site(peer));
    if (measured.site_uplink(peer) != 0 || found == best.end()) continue;
    const double own = hosts[measured.site(peer)].size() == 1 ? measured.uplink(peer) : 0;
    filled.set_site_uplink(peer, std::max(found->second, own));
  }
}

}  // namespace

PathMatrix::PathMatrix(std::size_t peers)
    : uplink_(peers), downlink_(peers), site_uplink_(peers), host_(peers), site_(peers) {
  RINGWAY_CHECK(peers >= 1 && peers <= kPeersMax);
  std::iota(host_.begin(), host_.end(), 0U);
  delay_.resize(peers * peers);
  rate_.resize(peers * peers);
}

void PathMatrix::set_delay(std::size_t from, std::size_t to, double seconds) {
  RINGWAY_CHECK(from != to && from < size() && to < size());
  delay_[At(from, to)] = Checked(seconds);
}

void PathMatrix::set_rate(std::size_t from, std::size_t to, double bytes_per_second) {
  RINGWAY_CHECK(from != to && from < size() && to < size());
  rate_[At(from, to)] = Checked(bytes_per_second);
}

void PathMatrix::set_money(std::size_t from, std::size_t to, double per_byte) {
  RINGWAY_CHECK(from != to && from < size() && to < size());
  money_.resize(size() * size());
  money_[At(from, to)] = Checked(per_byte);
}

void PathMatrix::set_uplink(std::size_t peer, double bytes_per_second) {
  RINGWAY_CHECK(peer < size());
  uplink_[peer] = Checked(bytes_per_second);
}

void PathMatrix::set_downlink(std::size_t peer, double bytes_per_second) {
  RINGWAY_CHECK(peer < size());
  downlink_[peer] = Checked(bytes_per_second);
}

void PathMatrix::set_site_uplink(std::size_t peer, double bytes_per_second) {
  RINGWAY_CHECK(peer < size());
  site_uplink_[peer] = Checked(bytes_per_second);
}

double PathMatrix::LinkRate(std::size_t from, std::size_t to) const {
  if (shares_host(from, to)) return rate(from, to);
  double least = 0;
  for (const double known : {rate(from, to), uplink_[from], downlink_[to]}) {
    if (known != 0 && (least == 0 || known < least)) least = known;
  }
  return least;
}

double LongestDelay(const PathMatrix& paths) {
  double longest = 0;
  ForEachPath(paths.size(),
              [&](std::uint32_t from, std::uint32_t to) { longest = std::max(longest, paths.delay(from, to)); });
  return longest;
}

PathMatrix WithAssumptions(const PathMatrix& measured) {
  PathMatrix filled = measured;
  FillDelays(measured, filled);
  FillRates(measured, filled);
  FillEnds(measured, filled);
  FillSites(measured, filled);
  return filled;
}

}  // namespace ringway
