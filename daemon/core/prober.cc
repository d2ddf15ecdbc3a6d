#include "daemon/core/prober.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"

namespace ringway::core {

void Prober::Want(PeerId other, std::uint64_t bytes) { bytes_left_.try_emplace(other, bytes); }

void Prober::Forget(PeerId other) {
  bytes_left_.erase(other);
  if (turn_ == other) turn_.reset();
}

std::uint32_t Prober::Take(std::uint32_t bytes_max) {
  RINGWAY_CHECK(turn_.has_value());
  std::uint64_t& left = bytes_left_.at(*turn_);
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, bytes_max));
  left -= bytes;
  return bytes;
}

std::optional<PeerId> Prober::Tick(TimePoint now, bool may_send, bool is_measured) {
  const Duration since = now - std::exchange(last_tick_, now);
  if (!may_send) return std::nullopt;
  std::optional<PeerId> ended;
  if (turn_) {
    time_left_ -= since;
    if (is_measured || time_left_ <= Duration() || drains_) {
      ended = turn_;
      bytes_left_.at(*turn_) = 0;
      turn_.reset();
    } else {
      drains_ = bytes_left_.at(*turn_) == 0;
    }
  }
  if (!turn_) PassTurn();
  return ended;
}

void Prober::PassTurn() {
  const auto first = bytes_left_.upper_bound(last_);
  const auto wanted = [](const auto& entry) { return entry.second > 0; };
  auto next = std::find_if(first, bytes_left_.end(), wanted);
  if (next == bytes_left_.end()) {
    next = std::find_if(bytes_left_.begin(), first, wanted);
    if (next == first) return;
  }
  last_ = next->first;
  turn_ = next->first;
  time_left_ = kTimeMax;
  drains_ = false;
}

}  // namespace ringway::core
