// What daemons have sent from site to site, and what that costs. Pure.
//
//   bytes   on lanes, with headers, probes and what was sent again; without control links and TCP's own headers
//   cost    by the prices when they were reported; 0 without prices
//   hour    sums of the last 60 minutes, by the minute
//
// Bounded: pairs beyond kPairsMax are counted together. A value; threads: one.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/clock.h"

namespace ringway {

class HourSum {
 public:
  void Add(TimePoint now, double value);
  double At(TimePoint now) const;

 private:
  static constexpr std::int64_t kMinutes = 60;
  struct Minute {
    std::int64_t number = -1;
    double sum = 0;
  };
  std::array<Minute, kMinutes> minutes_{};  // by its number mod kMinutes
};

struct SitePair {
  std::string from, to;
  friend auto operator<=>(const SitePair&, const SitePair&) = default;
};

struct Traffic {
  std::uint64_t bytes = 0;
  double cost = 0;
};

class TrafficBill {
 public:
  static constexpr std::size_t kPairsMax = 256;

  void AddBytes(const SitePair& pair, const Traffic& sent, TimePoint now);
  // `count`: of a group's; each peer counts its share of them.
  void AddOperations(double count, TimePoint now) { operations_.Add(now, count); }

  const std::map<SitePair, Traffic>& pairs() const { return pairs_; }
  // What went over pairs that have no place.
  const Traffic& rest() const { return rest_; }
  double CostOfHour(TimePoint now) const { return cost_.At(now); }
  // Nothing: none has ended within the hour.
  std::optional<double> CostOfOperation(TimePoint now) const;

 private:
  std::map<SitePair, Traffic> pairs_;
  Traffic rest_;
  HourSum cost_, operations_;
};

}  // namespace ringway
