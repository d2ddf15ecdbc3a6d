#include "daemon/flow/prober.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"

namespace ringway::flow {

void Prober::Want(PeerId other, std::uint64_t bytes) {
  const auto [found, is_new] = targets_.try_emplace(other);
  found->second.asked = false;
  kept_.erase(other);
  if (!is_new) return;
  found->second.bytes = bytes;
  found->second.Renew();
}

void Prober::Forget(PeerId other) {
  targets_.erase(other);
  turn_.erase(other);
  kept_.erase(other);
  std::erase(waiting_, other);
  if (holder_ == other) held_until_ = {};
}

void Prober::Again(PeerId other) {
  const auto found = targets_.find(other);
  if (found != targets_.end() && found->second.probes_left == 0) found->second.not_before = {};
}

std::vector<Prober::Message> Prober::TakeMessages() { return std::exchange(messages_, {}); }

std::uint32_t Prober::Take(PeerId other, std::uint32_t bytes_max) {
  RINGWAY_CHECK(turn_.contains(other));
  std::uint64_t& left = targets_.at(other).bytes_left;
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, bytes_max));
  left -= bytes;
  return bytes;
}

void Prober::On(PeerId from, Step step, TimePoint now) {
  switch (step) {
    case Step::kAsk:
      return OnAsk(from, now);
    case Step::kGrant:
      return OnGrant(from, now);
    case Step::kRelease:
      return OnRelease(from, now);
  }
}

void Prober::OnAsk(PeerId from, TimePoint now) {
  if (holder_ == from) return Say(from, Step::kGrant);
  if (std::find(waiting_.begin(), waiting_.end(), from) == waiting_.end()) waiting_.push_back(from);
  if (!holder_) GrantNext(now);
}

void Prober::OnGrant(PeerId from, TimePoint now) {
  const auto found = targets_.find(from);
  const bool asked = found != targets_.end() && std::exchange(found->second.asked, false);
  if (turn_.contains(from) || kept_.contains(from)) return;
  if (!asked || !turn_.empty() || (!together_ && !found->second.IsDue(now))) return Say(from, Step::kRelease);
  if (together_) {
    if (kept_.empty()) kept_until_ = now + kGatherMax;
    kept_.insert(from);
    if (WantsTogether(now)) GatherNext();
    return;
  }
  BeginTurn({from});
}

void Prober::OnRelease(PeerId from, TimePoint now) {
  std::erase(waiting_, from);
  if (holder_ == from) GrantNext(now);
}

std::set<PeerId> Prober::Tick(TimePoint now, bool may_send) {
  const Duration since = now - std::exchange(last_tick_, now);
  if (holder_ && now >= held_until_) GrantNext(now);
  const bool might = std::exchange(might_send_, may_send);
  paused_ = may_send ? Duration() : paused_ + since;
  std::set<PeerId> ended;
  if (paused_ >= kPauseMax) {
    EndTurn();
  } else if (!turn_.empty() && may_send && Spend(since)) {
    ended = turn_;
    if (together_) together_of_ = turn_.size();
    for (const PeerId other : turn_) {
      Target& target = targets_.at(other);
      if (!together_) target.EndProbe(now);
      target.Renew();
    }
    EndTurn();
  } else if (!kept_.empty() && now >= kept_until_) {
    together_not_before_ = now + together_pause_;
    together_pause_ *= 2;
    EndTurn();
  }
  // Only if allowed for two ticks: not in every short pause between operations.
  if (turn_.empty() && might && may_send) AskAll(now);
  return ended;
}

void Prober::Target::EndProbe(TimePoint now) {
  probes_left = std::max(probes_left - 1, 0);
  not_before = now + kBetween;
  if (probes_left > 0) return;
  not_before = now + again_after;
  again_after = std::min(2 * again_after, kAgainMax);
}

bool Prober::Spend(Duration time) {
  bool is_over = std::exchange(drains_, true);
  for (const PeerId other : turn_) {
    Target& target = targets_.at(other);
    target.time_left -= time;
    is_over = is_over || target.time_left <= Duration();
    drains_ = drains_ && target.bytes_left == 0;
  }
  return is_over;
}

void Prober::BeginTurn(std::set<PeerId> others) {
  turn_ = std::move(others);
  drains_ = false;
  paused_ = {};
}

// Also releases grants that were being collected.
void Prober::EndTurn() {
  for (const std::set<PeerId>& held : {std::exchange(turn_, {}), std::exchange(kept_, {})}) {
    for (const PeerId other : held) Say(other, Step::kRelease);
  }
  if (!std::exchange(together_, false)) return;
  for (auto& [other, target] : targets_) {
    if (std::exchange(target.asked, false)) Say(other, Step::kRelease);
  }
}

// Each once, then each again, then all at once.
void Prober::AskAll(TimePoint now) {
  if (WantsTogether(now)) {
    together_ = true;
    return GatherNext();
  }
  if (together_) EndTurn();  // a new peer has come
  const bool again = std::none_of(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second.probes_left == kProbes && entry.second.bytes > 0;
  });
  for (auto& [other, target] : targets_) {
    const bool is_due = target.IsDue(now) && (again || target.probes_left == kProbes);
    if (is_due && !std::exchange(target.asked, true)) Say(other, Step::kAsk);
  }
}

bool Prober::WantsTogether(TimePoint now) const {
  const bool are_done = std::all_of(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second.probes_left == 0 || entry.second.bytes == 0;
  });
  const auto others = static_cast<std::size_t>(
      std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) { return entry.second.bytes > 0; }));
  return are_done && others >= std::max<std::size_t>(2, 2 * together_of_) && now >= together_not_before_;
}

// Asks the next for its grant, or starts the turn if all have granted.
void Prober::GatherNext() {
  for (auto& [other, target] : targets_) {
    if (target.bytes == 0 || kept_.contains(other)) continue;
    if (!std::exchange(target.asked, true)) Say(other, Step::kAsk);
    return;
  }
  BeginTurn(std::exchange(kept_, {}));
}

void Prober::GrantNext(TimePoint now) {
  holder_.reset();
  if (waiting_.empty()) return;
  holder_ = waiting_.front();
  waiting_.pop_front();
  held_until_ = now + kGrantMax;
  Say(*holder_, Step::kGrant);
}

}  // namespace ringway::flow
