#include "daemon/flow/rate_window.h"

#include <utility>

#include "proto/check.h"

namespace ringway::flow {
namespace {

constexpr double kGrowth = 1.1;
constexpr Duration kShortest = std::chrono::milliseconds(20);

}  // namespace

std::optional<BusyWindow::Totals> BusyWindow::Extend(TimePoint now, const Tick& tick, Duration length, Duration lead) {
  if (!busy_since_) busy_since_ = now;
  if (!last_) {
    if (now - *busy_since_ >= lead) last_ = now;
    return std::nullopt;
  }
  Tick& sum = totals_.sum;
  sum.given += tick.given;
  sum.delivered += tick.delivered;
  sum.resent += tick.resent;
  sum.receiver_limited += tick.receiver_limited;
  sum.queueing += tick.queueing;
  sum.standing += tick.standing;
  sum.alone = sum.alone && tick.alone;
  totals_.lasted += now - std::exchange(*last_, now);
  totals_.held_ticks += tick.held;
  ++totals_.ticks;
  if (totals_.lasted < length) return std::nullopt;
  return std::exchange(totals_, {});
}

void RateWindow::Begin(TimePoint now, std::uint64_t bytes) {
  *this = {};
  (void)Rate(now, bytes, {});
}

std::optional<double> RateWindow::Rate(TimePoint now, std::uint64_t bytes, Duration length) {
  const double moved = static_cast<double>(bytes) - static_cast<double>(std::exchange(bytes_, bytes));
  const auto totals = window_.Extend(now, {.delivered = moved}, length);
  if (!totals) return std::nullopt;
  return totals->PerSecond(totals->sum.delivered);
}

std::optional<RateWindow::Measurement> RateWindow::Extend(TimePoint now, std::uint64_t bytes, Duration length) {
  RINGWAY_CHECK(running() && bytes >= bytes_);
  const auto rate = Rate(now, bytes, length);
  if (!rate) return std::nullopt;
  const std::optional<double> before = std::exchange(before_, rate);
  if (*rate > kGrowth * best_) {
    best_ = *rate;
    flat_ = 0;
  } else {
    ++flat_;
  }
  if (!before || *rate > *before * kSameRateRatio) return Measurement{.bytes_per_second = *rate};
  return Measurement{
      .bytes_per_second = (*before + *rate) / 2, .settled = true, .steady = *rate * kSameRateRatio >= *before};
}

std::optional<RateWindow::Measurement> RateWindow::Break(TimePoint now, std::uint64_t bytes) {
  const auto rate = running() ? Rate(now, bytes, kShortest) : std::nullopt;
  *this = {};
  if (!rate || *rate <= 0) return std::nullopt;
  return Measurement{.bytes_per_second = *rate};
}

}  // namespace ringway::flow
