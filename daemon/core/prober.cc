#include "daemon/core/prober.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"

namespace ringway::core {

void Prober::Want(PeerId other, std::uint64_t bytes) {
  const auto [found, is_new] = targets_.try_emplace(other);
  found->second.asked = false;
  if (is_new) found->second.bytes = found->second.bytes_left = bytes;
}

void Prober::Forget(PeerId other) {
  targets_.erase(other);
  if (turn_ == other) turn_.reset();
  std::erase(waiting_, other);
  if (holder_ == other) held_until_ = {};
}

std::vector<Prober::Message> Prober::TakeMessages() { return std::exchange(messages_, {}); }

std::uint32_t Prober::Take(std::uint32_t bytes_max) {
  RINGWAY_CHECK(turn_.has_value());
  std::uint64_t& left = targets_.at(*turn_).bytes_left;
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
  if (found != targets_.end()) found->second.asked = false;
  if (turn_ == from) return;
  const bool is_due = found != targets_.end() && found->second.bytes_left > 0 && now >= found->second.not_before;
  if (turn_ || !is_due) return Say(from, Step::kRelease);
  turn_ = from;
  drains_ = false;
  paused_ = {};
}

void Prober::OnRelease(PeerId from, TimePoint now) {
  std::erase(waiting_, from);
  if (holder_ == from) GrantNext(now);
}

std::optional<PeerId> Prober::Tick(TimePoint now, bool may_send) {
  const Duration since = now - std::exchange(last_tick_, now);
  if (holder_ && now >= held_until_) GrantNext(now);
  const bool might = std::exchange(might_send_, may_send);
  std::optional<PeerId> ended;
  paused_ = may_send ? Duration() : paused_ + since;
  if (turn_ && paused_ >= kPauseMax) {
    EndTurn();
  } else if (turn_ && may_send) {
    Target& target = targets_.at(*turn_);
    target.time_left -= since;
    if (target.time_left <= Duration() || drains_) {
      const bool again = --target.probes_left > 0;
      target.bytes_left = again ? target.bytes : 0;
      target.time_left = kTimeMax;
      target.not_before = now + kBetween;
      ended = turn_;
      EndTurn();
    } else {
      drains_ = target.bytes_left == 0;
    }
  }
  // Not in every short pause between two operations.
  if (!turn_ && might && may_send) AskAll(now);
  return ended;
}

void Prober::EndTurn() {
  Say(*turn_, Step::kRelease);
  turn_.reset();
}

// First each once.
void Prober::AskAll(TimePoint now) {
  const bool again = std::none_of(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second.probes_left == kProbes && entry.second.bytes_left > 0;
  });
  for (auto& [other, target] : targets_) {
    const bool is_due = target.bytes_left > 0 && now >= target.not_before && (again || target.probes_left == kProbes);
    if (is_due && !std::exchange(target.asked, true)) Say(other, Step::kAsk);
  }
}

void Prober::GrantNext(TimePoint now) {
  holder_.reset();
  if (waiting_.empty()) return;
  holder_ = waiting_.front();
  waiting_.pop_front();
  held_until_ = now + 2 * kTimeMax;
  Say(*holder_, Step::kGrant);
}

}  // namespace ringway::core
