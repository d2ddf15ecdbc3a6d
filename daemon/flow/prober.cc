#include "daemon/flow/prober.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "proto/check.h"
#include "proto/jitter.h"

namespace ringway::flow {
namespace {

const std::set<PeerId> kNobody;

// A path that carries less of what the uplink does limits what goes over it.
constexpr double kLimitsShare = 0.8;
constexpr std::size_t kFewHosts = 4;

constexpr Duration kGatherMax = std::chrono::seconds(5);
constexpr Duration kGrantMax = std::chrono::seconds(9);  // longer than to gather and to probe
constexpr Duration kWaitsMax = std::chrono::seconds(1);
constexpr Duration kOverdue = std::chrono::minutes(1);
constexpr std::uint64_t kWorthwhilePart = 8;  // of its bytes; a probe of less shows nothing

constexpr Duration kWindowMin = std::chrono::milliseconds(150);
constexpr double kGrowth = 1.1;
constexpr int kFlat = 2;
constexpr double kNearlyBest = 0.9;

}  // namespace

// ---------------------------------------------------------------------------------------------- the book

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

double ProbeBook::BestBeside(const std::string& host) const {
  double best = 0;
  for (const auto& [name, known] : hosts_) best = std::max(best, name == host ? 0 : known.rate_);
  return best;
}

bool ProbeBook::IsSlow(const Host& host) const { return host.rate_ == 0 || host.rate_ < kSlowShare * best_rate_; }

bool ProbeBook::IsDoubtful(const std::string& host, TimePoint now) {
  const Host& known = At(host);
  return known.IsNew(now) || (known.probes == 1 && IsSlow(known));
}

bool ProbeBook::IsDue(const std::string& host, TimePoint now) {
  const Host& known = At(host);
  if (now < known.not_before) return false;
  if (known.probes == 0 || known.rerouted) return true;
  const Duration settled = IsSlow(known) ? known.again_after : kAgainMax;
  return now - known.probed_at >= (IsDoubtful(host, now) ? kBetween : settled);
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

ProbeBook::Host& ProbeBook::Refilled(const std::string& host, TimePoint now) {
  Host& known = At(host);
  const double days = std::chrono::duration<double>(now - known.spent_at) / std::chrono::hours(24);
  known.spent = std::max(0.0, known.spent - days * half_day_bytes_);
  known.spent_warming = std::max(0.0, known.spent_warming - days * WarmBytesMax());
  known.spent_at = now;
  return known;
}

std::uint64_t ProbeBook::Allowance(const std::string& host, TimePoint now) {
  if (half_day_bytes_ == 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(std::max(0.0, half_day_bytes_ - Refilled(host, now).spent));
}

void ProbeBook::Spend(const std::string& host, std::uint64_t bytes, TimePoint now) {
  Refilled(host, now).spent += static_cast<double>(bytes);
}

std::uint64_t ProbeBook::WarmAllowance(const std::string& host, TimePoint now) {
  const double left = std::max(0.0, WarmBytesMax() - Refilled(host, now).spent_warming);
  return std::min(Allowance(host, now), static_cast<std::uint64_t>(left));
}

void ProbeBook::SpendWarming(const std::string& host, std::uint64_t bytes, TimePoint now) {
  Spend(host, bytes, now);
  At(host).spent_warming += static_cast<double>(bytes);
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

// ---------------------------------------------------------------------------------------------- grants

void ProbeGrants::OnAsk(PeerId from, TimePoint now, Out& out) {
  if (holder_ == from) {
    if (may_probe_) out.push_back({from, ProbeStep::kGrant});
    return;
  }
  if (std::find(waiting_.begin(), waiting_.end(), from) == waiting_.end()) waiting_.push_back(from);
  if (!holder_) GrantNext(now, out);
}

void ProbeGrants::OnRelease(PeerId from, TimePoint now, Out& out) {
  std::erase(waiting_, from);
  if (holder_ != from) return;
  Drop();
  GrantNext(now, out);
}

void ProbeGrants::Forget(PeerId other) {
  std::erase(waiting_, other);
  if (holder_ == other) Drop();
}

void ProbeGrants::Tick(TimePoint now, Out& out) {
  const bool is_quiet = book_->IsQuiet(now);
  if (holder_ && now >= held_until_) {
    out.push_back({*holder_, ProbeStep::kStop});
    Drop();
  } else if (holder_ && std::exchange(may_probe_, is_quiet) != is_quiet) {
    out.push_back({*holder_, is_quiet ? ProbeStep::kGrant : ProbeStep::kStop});
  }
  if (!holder_) GrantNext(now, out);
}

void ProbeGrants::Drop() {
  holder_.reset();
  book_->Give(ProbeBook::Slot::kIsProbed, self_);
}

void ProbeGrants::GrantNext(TimePoint now, Out& out) {
  if (waiting_.empty()) return book_->Give(ProbeBook::Slot::kIsProbed, self_);  // the place in line, too
  if (!book_->IsQuiet(now) || !book_->TakeInTurn(self_)) return;
  holder_ = waiting_.front();
  waiting_.pop_front();
  held_until_ = now + kGrantMax;
  may_probe_ = true;
  out.push_back({*holder_, ProbeStep::kGrant});
}

// ---------------------------------------------------------------------------------------------- growth

void Growth::Add(TimePoint now, double bytes, Duration round_trip) {
  const auto totals = window_.Extend(now, {.delivered = bytes}, std::max<Duration>(kWindowMin, round_trip * 3 / 2));
  if (!totals) return;
  const double rate = totals->PerSecond(totals->sum.delivered);
  flat_ = rate > kGrowth * best_ ? 0 : flat_ + 1;
  if (flat_ == 0) best_ = rate;
}

// ---------------------------------------------------------------------------------------------- whom to probe

Prober::~Prober() { book_->Give(ProbeBook::Slot::kProbes, self_); }

void Prober::Want(PeerId other, const std::string& host, std::uint64_t bytes, TimePoint now) {
  const auto [found, is_new] = targets_.try_emplace(other);
  found->second.asked = false;
  kept_.erase(other);
  if (!is_new) return;
  Target& target = found->second;
  target.host = host;
  target.bytes = target.left.bytes = host.empty() ? 0 : bytes;
  target.wanted_at = now;
  target.serial = host.empty() ? 0 : book_->At(host).serial;
}

void Prober::Forget(PeerId other) {
  targets_.erase(other);
  turn_.others.erase(other);
  turn_.stopped.erase(other);
  kept_.erase(other);
  grants_.Forget(other);
  if (turn_.others.empty() && !together_) book_->Give(ProbeBook::Slot::kProbes, self_);
}

void Prober::Again(PeerId other) {
  const auto found = targets_.find(other);
  if (found == targets_.end()) return;
  ProbeBook::Host& host = book_->At(found->second.host);
  host.rerouted = host.probes > 0;
}

void Prober::Learn(std::optional<PeerId> other, double rate) {
  if (rate <= 0) return;
  if (!other) {
    book_->uplink().rate = rate;
    return;
  }
  const auto found = targets_.find(*other);
  if (found != targets_.end() && !found->second.host.empty()) book_->Learn(found->second.host, rate);
}

std::map<PeerId, double> Prober::TakeProbed() {
  std::map<PeerId, double> probed;
  for (auto& [other, target] : targets_) {
    if (target.host.empty()) continue;
    const ProbeBook::Host& host = book_->At(target.host);
    if (std::exchange(target.serial, host.serial) != host.serial && host.rate() > 0) probed[other] = host.rate();
  }
  return probed;
}

double Prober::RateTo(std::optional<PeerId> other) const {
  if (!other) return book_->uplink().rate;
  const auto found = targets_.find(*other);
  return found == targets_.end() || found->second.host.empty() ? 0 : book_->At(found->second.host).rate();
}

std::set<PeerId> Prober::TakeOverdue(TimePoint now) {
  std::set<PeerId> overdue;
  for (auto& [other, target] : targets_) {
    if (target.host.empty() || now - target.wanted_at < kOverdue) continue;
    target.wanted_at = now;
    if (book_->At(target.host).rate() == 0) overdue.insert(other);
  }
  return overdue;
}

Prober::Hosts Prober::HostsToProbe() const {
  Hosts hosts;
  for (const auto& [other, target] : targets_) {
    if (target.bytes > 0) hosts.try_emplace(target.host, other);
  }
  return hosts;
}

Prober::Hosts Prober::WorthProbing() const {
  Hosts hosts = HostsToProbe();
  if (hosts.size() <= kFewHosts) return hosts;
  std::set<std::string> used;
  for (const PeerId other : used_) {
    const auto found = targets_.find(other);
    if (found != targets_.end()) used.insert(found->second.host);
  }
  const double uplink = book_->uplink().rate;
  const bool paths_limit = std::any_of(used.begin(), used.end(), [&](const std::string& host) {
    const double rate = host.empty() ? 0 : book_->At(host).rate();
    return rate > 0 && rate < kLimitsShare * uplink;
  });
  if (!paths_limit) std::erase_if(hosts, [&](const auto& host) { return !used.contains(host.first); });
  return hosts;
}

bool Prober::IsWorthwhile(const Target& target, TimePoint now) {
  return book_->Allowance(target.host, now) >= target.bytes / kWorthwhilePart;
}

bool Prober::IsDue(const Target& target, TimePoint now) {
  return target.bytes > 0 && book_->IsDue(target.host, now) && IsWorthwhile(target, now);
}

// ---------------------------------------------------------------------------------------------- messages

std::vector<Prober::Message> Prober::TakeMessages() { return std::exchange(messages_, {}); }

void Prober::On(PeerId from, Step step, TimePoint now) {
  switch (step) {
    case Step::kAsk:
      return grants_.OnAsk(from, now, messages_);
    case Step::kGrant:
      return OnGrant(from, now);
    case Step::kRelease:
      return grants_.OnRelease(from, now, messages_);
    case Step::kStop:
      return OnStop(from);
  }
}

void Prober::OnGrant(PeerId from, TimePoint now) {
  const auto found = targets_.find(from);
  const bool asked = found != targets_.end() && std::exchange(found->second.asked, false);
  turn_.stopped.erase(from);
  if (turn_.others.contains(from) || kept_.contains(from)) return;
  if (!asked || !turn_.others.empty() || (!together_ && !IsDue(found->second, now)) ||
      !book_->Take(ProbeBook::Slot::kProbes, self_)) {
    return Say(from, Step::kRelease);
  }
  if (!together_) return BeginTurn({from});
  kept_.insert(from);
  if (kept_.size() == HostsToProbe().size()) BeginTurn(std::exchange(kept_, {}));
}

void Prober::OnStop(PeerId from) {
  if (turn_.others.contains(from)) turn_.stopped.insert(from);
  if (kept_.erase(from) > 0) Say(from, Step::kRelease);
}

// ---------------------------------------------------------------------------------------------- as the prober

const std::set<PeerId>& Prober::turn() const {
  return turn_.stopped.empty() && !turn_.settled ? turn_.others : kNobody;
}

std::uint32_t Prober::Take(PeerId other, std::uint32_t bytes_max) {
  RINGWAY_CHECK(turn().contains(other));
  const std::string& host = targets_.at(other).host;
  std::uint64_t& left = budget().bytes;
  const std::uint64_t allowed = std::min(left, book_->Allowance(host, last_tick_));
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(allowed, bytes_max));
  left = allowed == 0 && !together_ ? 0 : left - bytes;
  book_->Spend(host, bytes, last_tick_);
  turn_.bytes += bytes;
  return bytes;
}

void Prober::OnSamples(std::span<const PathSample> samples, TimePoint now) {
  double moved = 0;
  Duration longest{};
  std::size_t backlogged = 0;
  for (const PathSample& sample : samples) {
    if (!turn().contains(sample.other) || !sample.backlogged || sample.receiver_limited) continue;
    ++backlogged;
    moved += sample.traffic.delivered;
    longest = std::max(longest, sample.round_trip);
  }
  if (backlogged == 0 || backlogged < turn().size()) return turn_.growth.Break();
  turn_.growth.Add(now, moved, longest);
  turn_.settled = HasSettled();
}

bool Prober::HasSettled() const {
  const Growth& growth = turn_.growth;
  if (growth.flat() >= kFlat || turn_.others.size() > 1) return growth.flat() >= kFlat;
  const double best = book_->BestBeside(targets_.at(*turn_.others.begin()).host);
  return growth.flat() >= 1 && best > 0 && growth.best() >= kNearlyBest * best;
}

Prober::Ended Prober::Tick(TimePoint now, bool may_send) {
  const Duration since = now - std::exchange(last_tick_, now);
  grants_.Tick(now, messages_);
  may_send = may_send && turn_.stopped.empty();
  const bool might = std::exchange(might_send_, may_send);
  paused_ = may_send ? Duration() : paused_ + since;
  Ended ended;
  if (!turn_.others.empty() && (turn_.settled || may_send) && Spend(since)) {
    ended = Conclude(now);
  } else if (paused_ >= kWaitsMax) {
    for (const PeerId other : turn_.stopped) book_->At(targets_.at(other).host).PutOff(now);
    EndTurn();
  } else if (turn_.others.empty() && together_ && now >= kept_until_) {
    EndGathering(now);
  }
  // Probing starts only after two ticks in which it was allowed, so not in every short pause between operations.
  if (turn_.others.empty() && might && may_send) AskDue(now);
  return ended;
}

std::uint64_t Prober::BytesOf(const std::set<PeerId>& others) const {
  std::uint64_t bytes = 0;
  for (const PeerId other : others) bytes += targets_.at(other).bytes;
  return bytes;
}

Prober::Budget& Prober::budget() { return together_ ? *joint_ : targets_.at(*turn_.others.begin()).left; }

bool Prober::Spend(Duration time) {
  Budget& left = budget();
  left.time -= time;
  turn_.lasted += time;
  return turn_.settled || std::exchange(turn_.drains, left.bytes == 0) || left.time <= Duration();
}

void Prober::BeginTurn(const std::set<PeerId>& others) {
  turn_ = Turn{.all = others, .others = others};
  if (together_ && !joint_) joint_ = {.bytes = BytesOf(turn_.others)};
  paused_ = {};
}

Prober::Ended Prober::Conclude(TimePoint now) {
  Ended ended{.others = turn_.all, .bytes = turn_.bytes, .lasted = turn_.lasted, .settled = turn_.settled};
  if (together_) {
    if (ended.settled || ended.bytes >= BytesOf(turn_.others) / turn_.others.size() / kWorthwhilePart) {
      book_->uplink().hosts = HostsToProbe().size();
    }
    book_->uplink().pause = ProbeBook::kBetween;
    book_->uplink().not_before = now + ProbeBook::kBetween;
    joint_.reset();
  } else {
    Target& target = targets_.at(*turn_.others.begin());
    book_->At(target.host).OnProbed(now);
    target.serial = book_->At(target.host).serial;
    budget() = {.bytes = BytesOf(turn_.others)};
  }
  EndTurn();
  return ended;
}

// Ends the turn, and releases grants that were being collected.
void Prober::EndTurn() {
  for (const std::set<PeerId>& held : {std::exchange(turn_, {}).others, std::exchange(kept_, {})}) {
    for (const PeerId other : held) Say(other, Step::kRelease);
  }
  book_->Give(ProbeBook::Slot::kProbes, self_);
  if (!std::exchange(together_, false)) return;
  for (auto& [other, target] : targets_) {
    if (std::exchange(target.asked, false)) Say(other, Step::kRelease);
  }
}

void Prober::EndGathering(TimePoint now) {
  if (kept_.size() >= std::max<std::size_t>(2, HostsToProbe().size() / 2)) {
    return BeginTurn(std::exchange(kept_, {}));
  }
  ProbeBook::Uplink& uplink = book_->uplink();
  uplink.not_before = now + uplink.pause / 2 + Jitter(self_.value, ++uplink.failures, uplink.pause);
  uplink.pause = std::min(2 * uplink.pause, ProbeBook::kAgainMin);
  EndTurn();
}

void Prober::Ask(PeerId other) {
  if (!kept_.contains(other) && !std::exchange(targets_.at(other).asked, true)) Say(other, Step::kAsk);
}

void Prober::AskDue(TimePoint now) {
  if (!WantsTogether(now)) {
    if (together_) EndTurn();  // a new one has come
    return AskEach(now);
  }
  if (!book_->Take(ProbeBook::Slot::kProbes, self_)) return;
  if (!std::exchange(together_, true)) kept_until_ = now + kGatherMax;
  for (const auto& [host, other] : HostsToProbe()) Ask(other);
}

// Each once, then each again.
void Prober::AskEach(TimePoint now) {
  if (!book_->IsFree(ProbeBook::Slot::kProbes, self_)) return;
  const Hosts hosts = WorthProbing();
  const auto is_new = [&](const auto& host) { return book_->At(host.first).IsNew(now); };
  const bool again = std::none_of(hosts.begin(), hosts.end(), is_new);
  for (const auto& host : hosts) {
    if (!IsDue(targets_.at(host.second), now) || !(again || book_->At(host.first).probes == 0)) continue;
    ProbeBook::Host& asked = book_->At(host.first);
    if (!asked.asked_at) asked.asked_at = now;
    Ask(host.second);
  }
}

bool Prober::WantsTogether(TimePoint now) {
  const ProbeBook::Uplink& uplink = book_->uplink();
  if (now < uplink.not_before) return false;
  const Hosts all = HostsToProbe();
  if (all.size() < std::max<std::size_t>(2, 2 * uplink.hosts)) return false;
  const auto is_worthwhile = [&](const auto& host) { return IsWorthwhile(targets_.at(host.second), now); };
  if (!std::all_of(all.begin(), all.end(), is_worthwhile)) return false;
  const Hosts hosts = WorthProbing();
  return std::none_of(hosts.begin(), hosts.end(), [&](const auto& host) { return book_->IsDoubtful(host.first, now); });
}

}  // namespace ringway::flow
