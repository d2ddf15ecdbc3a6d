#include "daemon/flow/lane_set.h"

namespace ringway::flow {
namespace {

// Retransmitted bytes by delivered ones, from which on large lanes take turns.
constexpr double kLossyShare = 0.0005;
constexpr double kLossWindowBytes = 8e6;

constexpr Backoff::Bounds kReplacePause{.min = std::chrono::seconds(30), .max = std::chrono::minutes(5)};

constexpr double kSlow = 0.25;
constexpr Duration kRound = std::chrono::seconds(8);
constexpr Duration kIdle = std::chrono::seconds(4);
constexpr Duration kFresh = std::chrono::seconds(2);
constexpr Backoff::Bounds kResetPause{.min = std::chrono::seconds(1), .max = std::chrono::seconds(30)};

// Round trips vary so many times their variation by jitter alone.
constexpr int kVariations = 3;

constexpr double kNewest = 0.2;  // weight of the newest sample in the EWMA
constexpr Duration kWatchMin = std::chrono::seconds(1);
constexpr Duration kGap = std::chrono::milliseconds(250);
constexpr double kStalledShare = 1.0 / 16;
constexpr double kNextToNothing = 1.0 / 256;  // of the best

double Grown(std::uint64_t before, std::uint64_t now) { return now > before ? static_cast<double>(now - before) : 0; }

// On a short round trip a few packets are fast enough.
bool IsUnhealthy(const LaneTraffic& lane) {
  return lane.round_trip >= kFarRoundTrip && lane.window_bytes > 0 && 2 * lane.window_bytes < lane.fresh_window_bytes &&
         !lane.in_use;
}

}  // namespace

Duration LaneLook::round_trip() const {
  Duration shortest{};
  for (std::size_t i = 0; i < size(); ++i) {
    const Duration of_lane = states_[i].up ? traffic_[i].round_trip : Duration();
    if (of_lane != Duration() && (shortest == Duration() || of_lane < shortest)) shortest = of_lane;
  }
  return shortest;
}

std::uint64_t LaneLook::carried() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (IsLarge(i)) bytes += traffic_[i].delivered_bytes + traffic_[i].earlier_bytes;
  }
  return bytes;
}

void LaneSet::Fit(std::size_t lanes) {
  if (lanes == lanes_.size()) return;
  lanes_.resize(lanes);
  for (Lane& lane : lanes_) lane.share = 0;
  watched_at_.reset();
}

void LaneSet::OnOpened(std::size_t lane, std::size_t lanes) {
  Fit(lanes);
  lanes_[lane].tail = {};
  lanes_[lane].last = {};
  lanes_[lane].window.Break();
}

void LaneSet::OnClosed(std::size_t lane) {
  if (lane < lanes_.size()) lanes_[lane].tail = {};
}

void LaneSet::OnAllClosed() {
  for (Lane& lane : lanes_) lane.tail = {};
}

Traffic LaneSet::TakeTraffic(const LaneLook& look) {
  Fit(look.size());
  Traffic all;
  std::int64_t sending = 0;
  for (std::size_t i = 0; i < look.size(); ++i) {
    Lane& lane = lanes_[i];
    const LaneTraffic& now = look.traffic(i);
    const LaneTraffic before = std::exchange(lane.last, now);
    lane.tick = {.delivered = Grown(before.delivered_bytes, now.delivered_bytes),
                 .resent = Grown(before.resent_bytes, now.resent_bytes),
                 .receiver_limited = std::max(Duration(), now.receiver_limited - before.receiver_limited)};
    all.delivered += lane.tick.delivered;
    all.resent += lane.tick.resent;
    all.receiver_limited += lane.tick.receiver_limited;
    if (!look.state(i).up || !now.sending) continue;
    ++sending;
    all.queueing += now.queueing;
    all.standing += std::max(Duration(), now.queueing - kVariations * now.variation);
  }
  if (sending > 0) {
    all.queueing /= sending;
    all.standing /= sending;
  }
  return all;
}

void LaneSet::NoteLosses(const Traffic& tick) {
  loss_.delivered += tick.delivered;
  loss_.resent += tick.resent;
  if (loss_.delivered < kLossWindowBytes) return;
  loss_.is_high = loss_.resent > kLossyShare * loss_.delivered;
  loss_.delivered = loss_.resent = 0;
}

LaneSet::Remedies LaneSet::Judge(const LaneLook& look, const Traffic& tick, const Demand& demand, TimePoint now) {
  Remedies out;
  NoteLosses(tick);
  if (const auto lane = FindUnhealthy(look, now)) {
    out.replace.push_back({*lane, "congestion control holds it back, a fresh one will be faster"});
  }
  out.renew = FindSlow(look, demand.pace, now);
  if (const auto lane = demand.busy ? FindStalled(look, tick, now) : std::nullopt) {
    out.replace.push_back({*lane, "it moved next to nothing for a second"});
  }
  Demand of_large = demand;
  of_large.backlogged |= look.AreAllUsedLarge([&](std::size_t i) { return look.traffic(i).unsent; });
  const std::size_t up = look.Count([&](std::size_t i) { return look.IsLarge(i); });
  scaler_.Add(tick, look.round_trip(), of_large, up, now);
  return out;
}

std::optional<std::size_t> LaneSet::TakeWanted(TimePoint now) {
  const std::size_t wanted = std::max<std::size_t>(kLanesRemote, SmallLanes(kLanesRemote) + scaler_.wanted(now));
  if (std::exchange(wanted_, wanted) == wanted) return std::nullopt;
  return wanted;
}

std::optional<std::size_t> LaneSet::FindUnhealthy(const LaneLook& look, TimePoint now) {
  for (std::size_t i = 0; i < SmallLanes(look.size()); ++i) {
    if (!IsUnhealthy(look.traffic(i)) || !lanes_[i].replace_pause.IsOver(now)) continue;
    lanes_[i].replace_pause.OnTry(kReplacePause, now);
    return i;
  }
  return std::nullopt;
}

// ---- resets

std::vector<std::size_t> LaneSet::FindSlow(const LaneLook& look, double pace, TimePoint now) {
  std::vector<std::size_t> out;
  bool one_sends = false;
  for (std::size_t i = 0; i < look.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!lane.reset_at) lane.reset_at = now;
    const LaneTraffic& traffic = look.traffic(i);
    const bool is_slow = look.IsUsedLarge(i) && traffic.rate > 0 && traffic.rate < kSlow * pace;
    if (!is_slow || !lane.reset_pause.IsOver(now)) continue;
    if (traffic.sending && std::exchange(one_sends, true)) continue;
    lane.reset_pause.OnTry(kResetPause, now);
    out.push_back(i);
  }
  if (pace > 0 && out.empty()) TakeTurn(look, now, out);
  for (const std::size_t lane : out) lanes_[lane].reset_at = now;
  return out;
}

void LaneSet::TakeTurn(const LaneLook& look, TimePoint now, std::vector<std::size_t>& out) {
  std::optional<std::size_t> oldest;
  int sending = 0;
  for (std::size_t i = 0; i < look.size(); ++i) {
    if (!look.IsUsedLarge(i)) continue;
    sending += look.traffic(i).sending;
    if (look.traffic(i).rate <= 0) continue;
    if (!look.traffic(i).sending) {
      if (now - *lanes_[i].reset_at >= kIdle) out.push_back(i);
    } else if (!oldest || lanes_[i].reset_at < lanes_[*oldest].reset_at) {
      oldest = i;
    }
  }
  if (!oldest || now - *lanes_[*oldest].reset_at < kFresh || now - last_turn_ < kRound / sending) return;
  last_turn_ = std::max(last_turn_, now - 2 * kRound / sending) + kRound / sending;  // ticks come late
  out.push_back(*oldest);
}

std::vector<std::size_t> LaneSet::AfterRest(double pace, TimePoint now) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < lanes_.size() && pace > 0; ++i) {
    if (!lanes_[i].reset_at || now - *lanes_[i].reset_at < kFresh) continue;
    lanes_[i].reset_at = now;
    out.push_back(i);
  }
  return out;
}

// ---- stalls

void LaneSet::UpdateShares(const Traffic& tick) {
  if (tick.delivered <= 0) return;
  const bool first = std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.share == 0; });
  for (Lane& lane : lanes_) lane.share += (first ? 1 : kNewest) * (lane.tick.delivered / tick.delivered - lane.share);
}

std::optional<std::size_t> LaneSet::FindStalled(const LaneLook& look, const Traffic& tick, TimePoint now) {
  if (watched_at_) UpdateShares(tick);
  const bool gap = !watched_at_ || now - *watched_at_ > kGap;  // they may have been idle meanwhile
  watched_at_ = now;
  const std::size_t busy = look.Count([&](std::size_t i) { return look.IsBusy(i); });
  std::optional<std::size_t> stalled;
  for (std::size_t i = 0; i < look.size(); ++i) {
    Lane& lane = lanes_[i];
    if (gap || !look.IsBusy(i)) lane.window.Break();
    if (!look.IsBusy(i)) continue;
    const auto totals = lane.window.Extend(now, lane.tick, std::max(kWatchMin, 10 * look.traffic(i).round_trip));
    if (!totals) continue;
    lane.window.Break();
    const double rate = totals->PerSecond(totals->sum.delivered);
    best_ = std::max(best_, rate);
    const bool holds_others_up = busy == 1 && look.size() > 1;
    const bool others_move = lane.share * static_cast<double>(busy) < kStalledShare;
    const bool next_to_nothing = rate < kNextToNothing * best_;
    const bool held_up = 4 * totals->sum.receiver_limited > totals->lasted;
    const bool is_stalled = rate < kStalledShare * best_ && (holds_others_up || others_move || next_to_nothing);
    if (is_stalled && !held_up && !stalled) stalled = i;
  }
  if (stalled) best_ /= 2;
  return stalled;
}

}  // namespace ringway::flow
