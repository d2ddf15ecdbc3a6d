#include "daemon/flow/traffic.h"

#include <utility>

namespace ringway::flow {

std::optional<BusyWindow::Totals> BusyWindow::Extend(TimePoint now, const Traffic& tick, Duration length,
                                                     Duration lead) {
  if (!busy_since_) busy_since_ = now;
  if (!last_) {
    if (now - *busy_since_ >= lead) last_ = now;
    return std::nullopt;
  }
  Traffic& sum = totals_.sum;
  sum.given += tick.given;
  sum.delivered += tick.delivered;
  sum.resent += tick.resent;
  sum.receiver_limited += tick.receiver_limited;
  sum.queueing += tick.queueing;
  sum.standing += tick.standing;
  sum.alone = sum.alone && tick.alone;
  sum.app_limited = sum.app_limited || tick.app_limited;
  totals_.lasted += now - std::exchange(*last_, now);
  totals_.held_ticks += tick.held;
  ++totals_.ticks;
  if (totals_.lasted < length) return std::nullopt;
  return std::exchange(totals_, {});
}

std::optional<BusyWindow::Totals> BusyWindow::Unfinished(TimePoint now, const Traffic& tick, Duration least) const {
  BusyWindow window = *this;
  return last_ ? window.Extend(now, tick, least) : std::nullopt;
}

}  // namespace ringway::flow
