#include "daemon/flow/probe_book.h"

#include <algorithm>
#include <limits>

namespace ringway::flow {

void ProbeBook::Host::OnProbed(TimePoint now) {
  if (probes > 0 && now - probed_at >= again_after) again_after = std::min(2 * again_after, kAgainMax);
  probes = std::min(probes + 1, 2);
  probed_at = now;
  rerouted = false;
  ++serial;
}

void ProbeBook::Learn(const std::string& host, double rate) {
  At(host).rate_ = rate;
  best_rate_ = 0;
  for (const auto& [name, known] : hosts_) best_rate_ = std::max(best_rate_, known.rate_);
}

bool ProbeBook::IsSlow(const Host& host) const { return host.rate_ == 0 || host.rate_ < kSlowShare * best_rate_; }

bool ProbeBook::IsDoubtful(const std::string& host) {
  const Host& known = At(host);
  return known.probes == 0 || (known.probes < 2 && IsSlow(known));
}

bool ProbeBook::IsDue(const std::string& host, TimePoint now) {
  const Host& known = At(host);
  if (now < known.not_before) return false;
  if (known.probes == 0 || known.rerouted) return true;
  const Duration settled = IsSlow(known) ? known.again_after : kAgainMax;
  return now - known.probed_at >= (IsDoubtful(host) ? kBetween : settled);
}

ProbeBook::Host& ProbeBook::At(const std::string& host) {
  const auto [found, is_new] = hosts_.try_emplace(host);
  found->second.used = ++uses_;
  if (is_new && hosts_.size() > kHostsMax) {
    hosts_.erase(std::min_element(hosts_.begin(), hosts_.end(),
                                  [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return found->second;
}

std::uint64_t ProbeBook::Allowance(const std::string& host, TimePoint now) {
  if (half_day_bytes_ == 0) return std::numeric_limits<std::uint64_t>::max();
  Host& known = At(host);
  const double days = std::chrono::duration<double>(now - known.spent_at) / std::chrono::hours(24);
  known.spent = std::max(0.0, known.spent - days * half_day_bytes_);
  known.spent_at = now;
  return static_cast<std::uint64_t>(std::max(0.0, half_day_bytes_ - known.spent));
}

void ProbeBook::Spend(const std::string& host, std::uint64_t bytes, TimePoint now) {
  (void)Allowance(host, now);
  At(host).spent += static_cast<double>(bytes);
}

bool ProbeBook::IsFree(Slot slot, PeerId self) const {
  const auto found = taken_.find(slot);
  return found == taken_.end() || found->second == self;
}

bool ProbeBook::Take(Slot slot, PeerId self) { return taken_.try_emplace(slot, self).first->second == self; }

bool ProbeBook::TakeInTurn(PeerId self) {
  if (std::find(line_.begin(), line_.end(), self) == line_.end()) line_.push_back(self);
  if (line_.front() != self || !Take(Slot::kIsProbed, self)) return false;
  line_.pop_front();
  return true;
}

void ProbeBook::Give(Slot slot, PeerId self) {
  if (slot == Slot::kIsProbed) std::erase(line_, self);
  const auto found = taken_.find(slot);
  if (found != taken_.end() && found->second == self) taken_.erase(found);
}

}  // namespace ringway::flow
