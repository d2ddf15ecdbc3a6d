// How far the monotonic clock of a daemon's host is ahead of the master's, from the samples that their heartbeats carry
// (ClockSample). One round trip bounds it: the daemon's reading lies between two of the master's.
//
//   master   sent_us ----------------+                    +--> now
//   daemon            echo_us noted, +-- held_us, sent_us-+
//
// The best round trip counts, and less with its age, for clocks drift apart; it is dropped when a newer sample
// contradicts it.
//
// Pure. A value; threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "proto/clock.h"
#include "proto/control.pb.h"

namespace ringway {

class ClockOffset {
 public:
  static constexpr Duration kRoundTripMax = std::chrono::seconds(60);
  static constexpr std::int64_t kDriftPpm = 500;  // of two clocks, as is assumed: what NTP slews a clock by at most

  struct Estimate {
    Duration ahead{};  // of the daemon's clock
    Duration error{};  // of that, and drift since
  };

  // The daemon's sample arrived at `now`. Ignores what cannot be.
  void Add(const control::ClockSample& sample, TimePoint now) {
    const auto is_time = [](std::int64_t us) { return us > 0 && us < std::int64_t{1} << 60; };
    if (!is_time(sample.sent_us()) || !is_time(sample.echo_us()) || sample.held_us() < 0) return;
    if (sample.held_us() > kRoundTripMax.count() || sample.echo_us() > now.time_since_epoch().count()) return;
    const Duration held(sample.held_us());
    const Duration since_echo = now - TimePoint(Duration(sample.echo_us()));
    const Duration round_trip = since_echo - held;
    if (round_trip < Duration::zero() || round_trip > kRoundTripMax) return;
    const Duration middle = now.time_since_epoch() - round_trip / 2;
    const Estimate sampled{.ahead = Duration(sample.sent_us()) - middle,
                           .error = round_trip / 2 + Drift(since_echo) + Duration(1)};
    const std::optional<Estimate> known = At(now);
    // If they cannot both be right, the clocks have drifted more than is assumed, or one was set.
    const bool agree = known && std::chrono::abs(known->ahead - sampled.ahead) <= known->error + sampled.error;
    if (agree && known->error < sampled.error) return;
    best_ = sampled;
    at_ = now;
  }

  // Nothing: no sample has come.
  std::optional<Estimate> At(TimePoint now) const {
    if (!best_) return std::nullopt;
    return Estimate{.ahead = best_->ahead, .error = best_->error + Drift(now - at_)};
  }

 private:
  static Duration Drift(Duration time) { return time * kDriftPpm / 1'000'000; }

  std::optional<Estimate> best_;
  TimePoint at_{};
};

}  // namespace ringway
