#include "daemon/flow/rate_window.h"

#include <utility>

#include "proto/check.h"

namespace ringway::flow {
namespace {

constexpr double kGrowth = 1.1;

}  // namespace

void RateWindow::Begin(TimePoint now, std::uint64_t bytes) {
  *this = {};
  start_ = Mark{.time = now, .bytes = bytes};
}

double RateWindow::RateAt(const Mark& mark) const {
  const double seconds = std::chrono::duration<double>(mark.time - start_->time).count();
  return static_cast<double>(mark.bytes - start_->bytes) / seconds;
}

std::optional<RateWindow::Measurement> RateWindow::Extend(TimePoint now, std::uint64_t bytes, Duration length) {
  RINGWAY_CHECK(running() && bytes >= start_->bytes);
  if (now - start_->time < length) return std::nullopt;
  const double rate = RateAt({.time = now, .bytes = bytes});
  start_ = Mark{.time = now, .bytes = bytes};
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

std::optional<RateWindow::Measurement> RateWindow::Break(TimePoint now, std::uint64_t bytes) {
  std::optional<Measurement> last;
  if (running() && now - start_->time >= kShortest && bytes > start_->bytes) {
    last = Measurement{.bytes_per_second = RateAt({.time = now, .bytes = bytes})};
  }
  *this = {};
  return last;
}

}  // namespace ringway::flow
