#include "master/planning/path_matrix.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "proto/check.h"

namespace ringway {
namespace {

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

void FillDelays(const PathMatrix& measured, PathMatrix& filled) {
  std::vector<double> delays;
  ForEachPath(measured.size(),
              [&](std::uint32_t from, std::uint32_t to) { delays.push_back(measured.delay(from, to)); });
  const double median = MedianOfKnown(std::move(delays));
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (measured.delay(from, to) != 0) return;
    const double reverse = measured.delay(to, from);
    filled.set_delay(from, to, reverse != 0 ? reverse : median);
  });
}

void FillRates(const PathMatrix& measured, PathMatrix& filled) {
  std::vector<double> rates;
  ForEachPath(measured.size(),
              [&](std::uint32_t from, std::uint32_t to) { rates.push_back(measured.LinkRate(from, to)); });
  const double median = MedianOfKnown(std::move(rates));
  const double assumed = median != 0 ? median : kAssumedRate;
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (measured.rate(from, to) != 0) return;
    const double known = measured.LinkRate(from, to);
    filled.set_rate(from, to, known != 0 ? known : assumed);
  });
}

// REQUIRES: the rates of `filled` are filled.
void FillEnds(const PathMatrix& measured, PathMatrix& filled) {
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    const double rate = filled.rate(from, to);
    if (measured.uplink(from) == 0) filled.set_uplink(from, std::max(filled.uplink(from), rate));
    if (measured.downlink(to) == 0) {
      filled.set_downlink(to, std::max({filled.downlink(to), rate, measured.uplink(to)}));
    }
  });
}

// REQUIRES: rates and ends of `filled` are filled.
void FillSites(const PathMatrix& measured, PathMatrix& filled) {
  std::map<std::uint32_t, double> best;
  std::map<std::uint32_t, int> hosts;
  for (std::size_t peer = 0; peer < measured.size(); ++peer) ++hosts[measured.site(peer)];
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (!measured.crosses(from, to)) return;
    double& rate = best[measured.site(from)];
    rate = std::max(rate, filled.LinkRate(from, to));
  });
  for (std::size_t peer = 0; peer < measured.size(); ++peer) {
    const auto found = best.find(measured.site(peer));
    if (measured.site_uplink(peer) != 0 || found == best.end()) continue;
    const double own = hosts[measured.site(peer)] == 1 ? measured.uplink(peer) : 0;
    filled.set_site_uplink(peer, std::max(found->second, own));
  }
}

}  // namespace

PathMatrix::PathMatrix(std::size_t peers) : uplink_(peers), downlink_(peers), site_uplink_(peers), site_(peers) {
  RINGWAY_CHECK(peers >= 1 && peers <= kPeersMax);
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
  double least = 0;
  for (const double rate : {rate_[At(from, to)], uplink_[from], downlink_[to]}) {
    if (rate != 0 && (least == 0 || rate < least)) least = rate;
  }
  return least;
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
