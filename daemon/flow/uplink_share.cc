#include "daemon/flow/uplink_share.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kAhead = 256 << 10;
constexpr Duration kGiveWay = std::chrono::milliseconds(1);
// Timers come late by as much.
constexpr Duration kComesBack = std::chrono::milliseconds(4);

}  // namespace

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
