#include "daemon/flow/pacing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::flow {
namespace {

// Credit that is kept while idle: timers and other work of the thread delay a sender by as much.
constexpr double kKeptSeconds = 0.004;
constexpr double kKeptMin = 256 << 10;
// A shorter timer would cost more than it smooths.
constexpr Duration kWaitMin = std::chrono::milliseconds(1);
constexpr double kDebtSeconds = 0.1;
constexpr double kDebtMin = 512 << 10;
// A sender that is not back so long after its wait had nothing more to send.
constexpr Duration kLateMax = std::chrono::milliseconds(4);

constexpr double kAhead = 256 << 10;
constexpr Duration kGiveWay = std::chrono::milliseconds(1);
// Timers come late by as much.
constexpr Duration kComesBack = std::chrono::milliseconds(4);

}  // namespace

void TokenBucket::SetRate(double rate) {
  if (rate_ <= 0) credit_ = 0;
  rate_ = rate;
}

Duration TokenBucket::Wait(TimePoint now) {
  const Duration since = now - std::exchange(filled_, now);
  if (rate_ <= 0) return {};
  const double earned = rate_ * std::chrono::duration<double>(since).count();
  credit_ = std::min(credit_ + earned, std::max(kKeptMin, rate_ * kKeptSeconds));
  if (credit_ > 0) return {};
  return std::max(kWaitMin, Duration(static_cast<Duration::rep>(std::ceil(-credit_ / rate_ * 1e6))));
}

void TokenBucket::OnSent(double bytes) {
  credit_ = std::max(credit_ - bytes, -std::max(kDebtMin, rate_ * kDebtSeconds));
}

void TokenBucket::OnResent(double bytes) {
  credit_ = std::max(credit_ - bytes, std::min(credit_, -rate_ * kDebtSeconds));
}

void WaitMeter::Add(Duration wait, TimePoint now) {
  const Duration since = now - std::exchange(last_at_, now);
  const Duration last_wait = std::exchange(last_wait_, wait);
  if (last_wait > Duration()) waited_ += std::min(since, last_wait + kLateMax);
}

// Only the remainder of the current wait is left for the next period.
bool WaitMeter::TakeHeld(TimePoint now) {
  Add(std::max(Duration(), last_wait_ - (now - last_at_)), now);
  const Duration since = now - std::exchange(taken_, now);
  return 2 * std::exchange(waited_, Duration()) > since;
}

// ---------------------------------------------------------------------------------------------- the uplink

void UplinkShare::SetRate(double rate) {
  rate_ = rate;
  Apply();
}

void UplinkShare::SetAllowed(double allowed) {
  allowed_ = allowed;
  Apply();
}

void UplinkShare::Apply() { bucket_.SetRate(allowed_ > 0 && (rate_ <= 0 || rate_ > allowed_) ? allowed_ : rate_); }

bool UplinkShare::IsAlone(const PathKey& pair, TimePoint now) const {
  return allowed_ <= 0 && now - (pair == latest_ ? others_at_ : latest_at_) > kSilent;
}

void UplinkShare::MarkActive(const PathKey& pair, TimePoint until) {
  if (pair == latest_) {
    latest_at_ = std::max(latest_at_, until);
  } else if (until >= latest_at_) {
    latest_ = pair;
    others_at_ = std::exchange(latest_at_, until);
  } else {
    others_at_ = std::max(others_at_, until);
  }
}

UplinkShare::Peer& UplinkShare::ActivePeer(PeerId self, TimePoint until, TimePoint now) {
  Peer& peer = peers_[self];
  if (peer.active_until + kSilent < now) {
    for (const auto& [other, at] : peers_) {
      if (other != self && at.active_until + kSilent >= now) peer.sent = std::max(peer.sent, at.sent);
    }
  }
  peer.active_until = std::max(peer.active_until, until);
  return peer;
}

bool UplinkShare::IsAheadOfOneThatWaits(PeerId self, double sent, TimePoint now) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
    const auto& [other, peer] = entry;
    return other != self && peer.waits_until >= now && peer.sent + kAhead < sent;
  });
}

// A waiting pair is active: on a slow uplink one segment takes longer than kSilent.
Duration UplinkShare::Wait(const PathKey& pair, TimePoint now) {
  if (IsAlone(pair, now)) return {};
  Duration wait = bucket_.Wait(now);
  Peer& peer = ActivePeer(pair.self, now + wait, now);
  if (wait <= Duration() && bucket_.rate() > 0 && IsAheadOfOneThatWaits(pair.self, peer.sent, now)) wait = kGiveWay;
  if (wait <= Duration()) return {};
  peer.waits_until = now + wait + kComesBack;
  MarkActive(pair, now + wait);
  return wait;
}

void UplinkShare::OnSent(const PathKey& pair, double bytes, TimePoint now) {
  if (!IsAlone(pair, now)) {
    bucket_.OnSent(bytes);
    Peer& peer = ActivePeer(pair.self, now, now);
    peer.sent += background_.contains(pair.self) ? background_cost_ * bytes : bytes;
    peer.waits_until = {};
  }
  MarkActive(pair, now);
}

}  // namespace ringway::flow
