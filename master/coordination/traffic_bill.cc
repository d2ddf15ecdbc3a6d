#include "master/coordination/traffic_bill.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace ringway {
namespace {

std::int64_t MinuteOf(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::minutes>(now.time_since_epoch()).count();
}

}  // namespace

void HourSum::Add(TimePoint now, double value) {
  const std::int64_t number = MinuteOf(now);
  Minute& minute = minutes_[static_cast<std::size_t>(number % kMinutes)];
  if (minute.number != number) minute = {.number = number};
  minute.sum += value;
}

double HourSum::At(TimePoint now) const {
  const std::int64_t number = MinuteOf(now);
  double sum = 0;
  for (const Minute& minute : minutes_) {
    if (minute.number >= 0 && number - minute.number < kMinutes) sum += minute.sum;
  }
  return sum;
}

void TrafficBill::AddBytes(const SitePair& pair, const Traffic& sent, TimePoint now) {
  const auto found = pairs_.find(pair);
  Traffic& sum = found != pairs_.end() ? found->second : pairs_.size() < kPairsMax ? pairs_[pair] : rest_;
  sum.bytes += std::min(sent.bytes, std::numeric_limits<std::uint64_t>::max() - sum.bytes);
  sum.cost += sent.cost;
  cost_.Add(now, sent.cost);
}

std::optional<double> TrafficBill::CostOfOperation(TimePoint now) const {
  const double operations = operations_.At(now);
  if (operations <= 0) return std::nullopt;
  return cost_.At(now) / operations;
}

}  // namespace ringway
