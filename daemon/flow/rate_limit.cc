#include "daemon/flow/rate_limit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kHelpedLossMin = 0.01;
constexpr double kHelps = 0.5;
constexpr int kWindowsToSettle = 2;
constexpr double kDecrease = 0.3;  // of one connection, as cubic's
constexpr double kFloor = 0.25;
constexpr double kLimitMin = 128 << 10;  // bytes per second: a waiting segment leaves within seconds
constexpr double kRegrown = 0.5;         // of the best
constexpr double kNearBest = 0.8;
constexpr double kBestKept = 0.9;
constexpr double kNear = 0.05;
constexpr double kPassed = 0.02;  // less may still be queued
constexpr double kUnusedMax = 2;
constexpr double kFilled = 0.8;
constexpr double kFilledAssumed = 0.7;  // deliveries lag by a round trip
constexpr double kArrives = 0.9;        // of what was given a window before
constexpr int kFullWindows = 2;
constexpr double kLostShareAssumedMax = 0.1;
constexpr double kDrain = 0.99;
constexpr double kDrainMost = 0.95;
constexpr double kDrained = 0.95;  // of c

constexpr double kGrowthMax = 0.25;

// Operations that did not fill the path have shown less than it carries.
constexpr double kMoreThanSeen = 1.25;

}  // namespace

RateLimit::RateLimit(std::uint32_t share) : share_(share), less_(1 - kDecrease / share) {}

bool RateLimit::HasHelped(const Window& window) const {
  return window.lost_share > kHelpedLossMin && reduction_.lost_share - window.lost_share > kHelps * reduction_.share;
}

void RateLimit::Assume(double limit) {
  limit = std::max(limit, kLimitMin);
  assumed_ = {
      .initial = limit, .given_before = assumed_ ? assumed_->given_before : 0, .full = assumed_ ? assumed_->full : 0};
  limit_ = limit;
}

void RateLimit::AssumeSeen(double limit) {
  Assume(limit);
  model_.Raise(limit);
}

void RateLimit::Observe(const Window& window) {
  model_.Estimate(window, model_.Read(window, PathModel::Limit::kNone), {});
}

void RateLimit::Judge(const Window& window) {
  if (window.delivered <= 0) return;
  const bool settles = reduction_.settling > 0;
  if (settles && --reduction_.settling > 0) return;
  if (settles && !HasHelped(window)) model_.AddOwn(window);
  const PathModel::Signs signs = model_.Read(window, assumed_     ? PathModel::Limit::kAssumed
                                                     : limit_ > 0 ? PathModel::Limit::kMeasured
                                                                  : PathModel::Limit::kNone);
  if (assumed_) return JudgeAssumed(window, signs);
  const bool held = limit_ > 0 && window.held;
  const bool filled = held && !signs.queue && window.delivered > kFilled * limit_;
  model_.Estimate(window, signs,
                  {.limit = limit_,
                   .held = held,
                   .filled = filled,
                   .only_drained = drained_,
                   .urgent = signs.overdriven && (held || series_ > 0)});
  if (filled && !signs.lossy && limit_ > (1 + kPassed) * overdriven_) overdriven_ = 0;
  if (!signs.overdriven) {
    if (held || window.delivered > kFilled * limit_) series_ = 0;
    best_ = std::max(best_, carries());
  }
  Make(Choose(window, signs), window);
}

void RateLimit::JudgeAssumed(const Window& window, const PathModel::Signs& signs) {
  model_.Estimate(window, signs, {});
  limit_ = std::max(limit_, window.delivered);
  const double given = std::min(window.given, std::exchange(assumed_->given_before, window.given));
  const bool is_full = signs.long_queue && window.delivered < kArrives * given;
  assumed_->full = is_full ? assumed_->full + 1 : 0;
  const bool most_arrives = window.delivered > kFilledAssumed * limit_ && window.lost_share < kLostShareAssumedMax;
  if (assumed_->full >= kFullWindows) {
    Lower(window);
    overdriven_ = carries();
  } else if (window.held && !is_full && most_arrives &&
             (signs.bound_by_lanes || window.delivered > (1 + kNear) * assumed_->grown_at)) {
    assumed_->grown_at = window.delivered;
    limit_ *= 1 + kGrowthMax;
  } else if (signs.overdriven) {
    Lower(window);
  }
}

void RateLimit::Rest() {
  if (assumed_) assumed_->grown_at = 0;
  if (doubled_ && limit_ < best_) return;  // it passed before
  const double passes = std::max(carries(), assumed_ ? assumed_->initial : 0);
  limit_ = std::min(limit_, std::max({(1 + kNear) * passes, kFloor * series_, kLimitMin}));
}

RateLimit::Move RateLimit::Choose(const Window& window, const PathModel::Signs& signs) const {
  if (signs.overdriven) return Move::kLower;
  const bool used = limit_ > 0 && window.held && limit_ < kUnusedMax * std::max(carries(), window.delivered);
  if (!used) return Move::kHold;
  if (limit_ < kRegrown * best_) return Move::kRegrow;
  if (signs.long_queue && !model_.is_queue_foreign()) return Move::kDrain;
  if (signs.queue && model_.FallsShort()) return Move::kYield;
  const bool is_near = std::abs(limit_ - overdriven_) < kNear * overdriven_;
  if (is_near && overdriven_ > kNearBest * best_) return Move::kNudge;
  return signs.queue ? Move::kPress : Move::kProbe;
}

// How much of itself a move adds to the limit.
struct RateLimit::Gain {
  double gain = 0;
  bool of_share = false;   // at the default share; in proportion to it
  bool keeps_run = false;  // of probes, each of which gains twice as much as the one before
};

constexpr RateLimit::Gain RateLimit::kGains[] = {
    /* kLower  */ {},
    /* kHold   */ {},
    /* kRegrow */ {.gain = 1, .keeps_run = true},
    /* kDrain  */ {},
    /* kYield  */ {},
    /* kNudge  */ {.gain = 0.005, .of_share = true},
    /* kPress  */ {.gain = 0.02, .of_share = true, .keeps_run = true},
    /* kProbe  */ {.gain = 0.03, .keeps_run = true},
};

double RateLimit::GainOf(Move move) {
  const Gain& row = kGains[static_cast<int>(move)];
  if (!row.keeps_run) probes_ = 0;
  const double share = static_cast<double>(share_) / kShareDefault;
  if (move == Move::kProbe) return std::min({kGrowthMax, kGrowthMax * share, std::ldexp(row.gain, probes_++)});
  const double gain = row.of_share ? row.gain * share : row.gain;
  return move == Move::kNudge && drained_ ? 2 * gain : gain;  // a queue shows before it overflows
}

void RateLimit::Make(Move move, const Window& window) {
  limit_ *= 1 + GainOf(move);
  doubled_ = doubled_ || move == Move::kRegrow;
  if (move == Move::kLower) Lower(window);
  if (move == Move::kDrain) Drain();
  if (move == Move::kYield) {
    limit_ = std::max({carries(), less_ * std::min(overdriven_, limit_), kDrain * limit_, kLimitMin});
  }
}

void RateLimit::Lower(const Window& window) {
  const double known = limit_ <= 0 && window.app_limited ? model_.recent() : carries();
  const double c = std::max(known, window.delivered);
  const double before = limit_ > 0 ? limit_ : c;
  if (std::exchange(assumed_, std::nullopt)) limit_ = 0;
  if (series_ <= 0) {
    series_ = window.delivered;
    best_ = std::exchange(doubled_, false) ? std::max(window.delivered, best_ / 4) : std::max(c, kBestKept * best_);
  }
  drained_ = false;
  overdriven_ = limit_ > 0 ? c : 0;  // fresh connections overdrive by far: the losses hide the bandwidth
  const double less = std::max({less_ * c, kFloor * series_, kLimitMin});
  limit_ = limit_ > 0 ? std::min(limit_, less) : less;
  model_.OnLowered(limit_);
  reduction_ = {.lost_share = window.lost_share, .share = 1 - limit_ / before, .settling = kWindowsToSettle};
}

void RateLimit::Drain() {
  const double drained = kDrained * carries();
  if (limit_ <= drained) model_.OnNotDrained();
  const double most = std::clamp(model_.arriving(), kDrainMost, kDrain) * limit_;
  limit_ = std::max({std::min(limit_, drained), most, kLimitMin});
  overdriven_ = carries();
  drained_ = true;
}

// ---------------------------------------------------------------------------------------------- memory

void PathMemory::Keep(const std::string& host, const RateLimit& rate_limit, TimePoint measured_at) {
  const auto found = hosts_.find(host);
  if (found != hosts_.end() && found->second.measured_at > measured_at) return;
  hosts_.insert_or_assign(host, Known{.rate_limit = rate_limit, .measured_at = measured_at});
  if (hosts_.size() <= kHostsMax) return;
  hosts_.erase(std::min_element(hosts_.begin(), hosts_.end(), [](const auto& a, const auto& b) {
    return a.second.measured_at < b.second.measured_at;
  }));
}

RateLimit PathMemory::Recall(const std::string& host, TimePoint now) const {
  RateLimit fresh(share_);
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return fresh;
  const auto& [rate_limit, measured_at] = found->second;
  if (rate_limit.limit() > 0 && now - measured_at <= kFresh) return rate_limit;
  const double passed = rate_limit.limit() > 0 ? rate_limit.limit() : rate_limit.carries();
  if (passed <= 0) return fresh;
  fresh.AssumeSeen(passed);
  if (rate_limit.limit() <= 0 && !rate_limit.is_measured()) fresh.Assume(kMoreThanSeen * passed);
  return fresh;
}

}  // namespace ringway::flow
