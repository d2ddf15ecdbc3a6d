#include "tests/chaos/faults.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/sanitized.h"

namespace ringway::chaos {
namespace {

constexpr std::array<const char*, kFaultCount> kNames = {"kill_daemon",
                                                         "terminate_daemon",
                                                         "freeze_daemon",
                                                         "kill_trainer",
                                                         "freeze_trainer",
                                                         "leave",
                                                         "kill_master",
                                                         "freeze_master",
                                                         "cut",
                                                         "corrupt",
                                                         "slow",
                                                         "black_hole",
                                                         "deaf",
                                                         "mute",
                                                         "few_descriptors",
                                                         "crash_loop",
                                                         "cut_off_master",
                                                         "noise",
                                                         "end_certificate",
                                                         "move_clock",
                                                         "move_master_clock",
                                                         "no_names",
                                                         "full_disk",
                                                         "flood",
                                                         "no_name_server"};

constexpr std::chrono::seconds kAftermath(10);
constexpr std::chrono::seconds kCertificateLasts(2);
constexpr std::chrono::hours kCertificateHolds(24);

bool AtMaster(Fault fault) {
  return fault == Fault::kKillMaster || fault == Fault::kFreezeMaster || fault == Fault::kCutOffMaster ||
         fault == Fault::kMoveMasterClock || fault == Fault::kFullDisk || fault == Fault::kNoNameServer;
}

// Acts on a peer's paths, so the trainer must be a member.
bool NeedsPeer(Fault fault) {
  return fault == Fault::kCut || fault == Fault::kCorrupt || fault == Fault::kSlow || fault == Fault::kBlackHole ||
         fault == Fault::kDeaf || fault == Fault::kMute || fault == Fault::kMoveClock ||
         fault == Fault::kEndCertificate;
}

// Cuts what comes from the master, what goes to it, or both.
std::vector<Fleet::PathFault> MasterPaths(std::uint64_t which) {
  const Fleet::PathFault from{.flow = {.from = e2e::Relay::kDialled}, .at_master = true};
  const Fleet::PathFault to{.flow = {.to = e2e::Relay::kDialled}, .at_master = true};
  if (which == 0) return {from};
  if (which == 1) return {to};
  return {from, to};
}

// No more files than are open now, or as many as anybody.
void LimitDescriptors(const e2e::Process& process, bool limited) {
  rlimit limit{};
  ::prlimit(process.pid(), RLIMIT_NOFILE, nullptr, &limit);
  limit.rlim_cur = limited ? std::min<rlim_t>(process.OpenDescriptors(), limit.rlim_max) : limit.rlim_max;
  ::prlimit(process.pid(), RLIMIT_NOFILE, &limit, nullptr);
}

}  // namespace

const char* NameOf(Fault fault) { return kNames.at(static_cast<std::size_t>(fault)); }

Faults::Faults(Fleet& fleet, const FaultOptions& options) : fleet_(fleet), options_(options), dice_(options.seed) {
  for (std::size_t i = 0; i < kFaultCount; ++i) {
    if (IsPossibleHere(static_cast<Fault>(i))) struck_[kNames.at(i)] = 0;
  }
}

Fault Faults::Draw() {
  if (bag_.empty()) {
    for (std::size_t i = 0; i < kFaultCount; ++i) {
      if (IsPossibleHere(static_cast<Fault>(i))) bag_.push_back(static_cast<Fault>(i));
    }
    std::shuffle(bag_.begin(), bag_.end(), dice_);
  }
  return bag_.back();
}

bool Faults::IsPossibleHere(Fault fault) const {
  const bool surrounds = fault == Fault::kMoveClock || fault == Fault::kMoveMasterClock || fault == Fault::kNoNames;
  if (fault == Fault::kEndCertificate) return fleet_.has_tls();
  if (fault >= Fault::kMoveClock && !fleet_.has_host_faults()) return false;
  if (fault == Fault::kNoNameServer) return fleet_.names().resolves();
  return fault == Fault::kFullDisk ? fleet_.disk().can_be_filled() : !(surrounds && kSanitized);
}

bool Faults::Touches(std::size_t seat) const {
  return std::any_of(wounds_.begin(), wounds_.end(), [&](const Wound& wound) { return wound.victim == seat; });
}

bool Faults::IsUntouched(std::size_t seat) const { return !Touches(seat) && heard_ - healed_at_.at(seat) > kAftermath; }

bool Faults::Possible(Fault fault, std::size_t seat) const {
  return !Touches(seat) && (!NeedsPeer(fault) || fleet_.PeerOf(seat) != 0);
}

std::optional<std::size_t> Faults::Victim(Fault fault) {
  if (AtMaster(fault)) return Possible(fault, kMaster) ? std::optional(kMaster) : std::nullopt;
  if (fault == Fault::kNoise) return Possible(fault, kNetwork) ? std::optional(kNetwork) : std::nullopt;
  std::vector<std::size_t> possible;
  for (std::size_t seat = 0; seat < kSeats; ++seat) {
    if (Possible(fault, seat)) possible.push_back(seat);
  }
  if (possible.size() <= kUntouchedMin) return std::nullopt;
  return possible[dice_() % possible.size()];
}

std::chrono::milliseconds Faults::DurationOf(Fault fault) {
  if (fault == Fault::kCutOffMaster) return std::chrono::milliseconds(options_.cut_off_max_ms >> Between(0, 5));
  return std::chrono::milliseconds(Between(50, AtMaster(fault) ? 1500 : 2500));
}

std::optional<std::string> Faults::Strike() {
  const Fault fault = Draw();
  const std::optional<std::size_t> victim = Victim(fault);
  if (!victim) return std::nullopt;
  bag_.pop_back();
  const std::chrono::milliseconds lasts = DurationOf(fault);
  wounds_.push_back({fault, *victim, Clock::now() + lasts});
  Act(&wounds_.back());
  ++struck_[NameOf(fault)];
  return std::string(NameOf(fault)) + (*victim < kSeats ? " " + std::to_string(*victim) : "") + " for " +
         std::to_string(lasts.count()) + " ms";
}

void Faults::Act(Wound* wound) {
  const std::size_t seat = wound->victim;
  using Kind = Fleet::PathFault::Kind;
  const std::uint64_t peer = seat < kSeats ? fleet_.PeerOf(seat) : 0;
  const e2e::Flow to{.from = 0, .to = peer};
  const e2e::Flow from{.from = peer, .to = 0};
  const std::chrono::milliseconds delay(Between(5, 120));
  switch (wound->fault) {
    case Fault::kKillDaemon:
      return fleet_.daemon(seat).Kill();
    case Fault::kTerminateDaemon:
      return fleet_.daemon(seat).Signal(SIGTERM);
    case Fault::kFreezeDaemon:
      return fleet_.daemon(seat).Signal(SIGSTOP);
    case Fault::kKillTrainer:
      return fleet_.KillTrainer(seat);
    case Fault::kFreezeTrainer:
      return fleet_.trainer(seat).Signal(SIGSTOP);
    case Fault::kLeave:
      return fleet_.trainer(seat).Signal(SIGTERM);
    case Fault::kKillMaster:
      return fleet_.master().Kill();
    case Fault::kFreezeMaster:
      return fleet_.master().Signal(SIGSTOP);
    case Fault::kCut:
      return CutPeer(peer);
    case Fault::kCorrupt:
      return fleet_.relay(seat).Corrupt({.from = 0, .to = peer, .links = e2e::Links::kLanes}, Between(0, 20'000));
    case Fault::kSlow:
      wound->paths = {{.kind = Kind::kDelay, .flow = to, .delay = delay},
                      {.kind = Kind::kDelay, .flow = from, .delay = delay}};
      return SetPaths();
    case Fault::kBlackHole:
      wound->paths = {{.flow = to}, {.flow = from}};
      return SetPaths();
    case Fault::kDeaf:
      wound->paths = {{.flow = to}};
      return SetPaths();
    case Fault::kMute:
      wound->paths = {{.flow = from}};
      return SetPaths();
    case Fault::kFewDescriptors:
      // One that is still starting would end, as it may, and nobody would start it again.
      if (fleet_.IsUp(seat)) LimitDescriptors(fleet_.daemon(seat), true);
      return;
    case Fault::kCrashLoop:
      return CrashOn(*wound);
    case Fault::kCutOffMaster:
      wound->paths = MasterPaths(Between(0, 3));
      return SetPaths();
    case Fault::kNoise:
      wound->paths = {{.kind = Kind::kNoise, .flow = {}, .noise_one_of = Between(500'000, 4'000'000)}};
      wound->paths.push_back(
          {.kind = Kind::kNoise, .flow = {}, .at_master = true, .noise_one_of = Between(2000, 20'000)});
      return SetPaths();
    default:
      return ActOnHost(wound);
  }
}

// Changes what a process takes for granted: its clock, its name server, its disk.
void Faults::ActOnHost(Wound* wound) {
  const std::size_t seat = wound->victim;
  switch (wound->fault) {
    case Fault::kEndCertificate:
      return EndCertificate(*wound);
    case Fault::kNoNameServer:
      fleet_.names().Stop();
      return fleet_.CutMaster();
    case Fault::kMoveClock:
      MoveClock(fleet_.surroundings(seat));
      return CutPeer(fleet_.PeerOf(seat));
    case Fault::kMoveMasterClock:
      MoveClock(fleet_.master_surroundings());
      return fleet_.CutMaster();
    case Fault::kNoNames:
      fleet_.surroundings(seat).names = Between(0, 1) == 0 ? Names::kFail : Names::kHang;
      return fleet_.CutMaster();
    case Fault::kFullDisk:
      return fleet_.disk().Fill();
    case Fault::kFlood:
      return fleet_.StartFlood(seat);
    default:
      return;
  }
}

bool Faults::EndsByItself(const Wound& wound, Clock::time_point now) {
  if (wound.fault != Fault::kTerminateDaemon && wound.fault != Fault::kLeave) return true;
  const bool daemon = wound.fault == Fault::kTerminateDaemon;
  e2e::Process& process = daemon ? fleet_.daemon(wound.victim) : fleet_.trainer(wound.victim);
  const std::optional<int> code = process.Exited();
  // Its open operations may wait for a recovery, and that for the master.
  const auto patience = e2e::kPatience + std::chrono::milliseconds(options_.cut_off_max_ms);
  if (!code.has_value() && now < wound.until + patience) return false;
  if (!code.has_value()) troubles_.push_back(process.label() + " does not end though it was asked to");
  const bool had_begun = code != -SIGTERM || !process.Err().empty();  // else SIGTERM came before its handler
  if (code.value_or(0) != 0 && had_begun) troubles_.push_back(process.label() + " ended with " + std::to_string(*code));
  return true;
}

void Faults::Undo(const Wound& wound) {
  const std::size_t seat = wound.victim;
  switch (wound.fault) {
    case Fault::kKillDaemon:
    case Fault::kTerminateDaemon:
      return fleet_.StartDaemon(seat);
    case Fault::kFreezeDaemon:
      return fleet_.daemon(seat).Signal(SIGCONT);
    case Fault::kKillTrainer:
    case Fault::kLeave:
      return fleet_.StartTrainer(seat);
    case Fault::kFreezeTrainer:
      return fleet_.trainer(seat).Signal(SIGCONT);
    case Fault::kKillMaster:
      return fleet_.StartMaster();
    case Fault::kFreezeMaster:
      return fleet_.master().Signal(SIGCONT);
    case Fault::kCut:
    case Fault::kCorrupt:
      return;
    case Fault::kSlow:
    case Fault::kBlackHole:
    case Fault::kDeaf:
    case Fault::kMute:
    case Fault::kCutOffMaster:
    case Fault::kNoise:
      return SetPaths();
    case Fault::kEndCertificate:
      if (fleet_.IsUp(seat)) fleet_.Certify(seat, kCertificateHolds);
      return;
    case Fault::kNoNameServer:
      return fleet_.names().Start();
    case Fault::kMoveClock:
      fleet_.surroundings(seat).clock_ahead_s = 0;
      return;
    case Fault::kMoveMasterClock:
      fleet_.master_surroundings().clock_ahead_s = 0;
      return;
    case Fault::kNoNames:
      fleet_.surroundings(seat).names = Names::kResolve;
      return;
    case Fault::kFullDisk:
      return fleet_.disk().Empty();
    case Fault::kFlood:
      return fleet_.EndFlood(seat);
    case Fault::kFewDescriptors:
      return LimitDescriptors(fleet_.daemon(seat), false);
    case Fault::kCrashLoop:
      return;  // the last one stays
  }
}

// Back and forth; beyond what certificates hold, too.
void Faults::MoveClock(Surroundings& surroundings) {
  constexpr std::array<std::int64_t, 6> kSeconds = {-400 * 86400, -86400, -3, 2, 86400, 400 * 86400};
  surroundings.clock_ahead_s = kSeconds.at(Between(0, kSeconds.size() - 1));
}

void Faults::CutPeer(std::uint64_t peer) {
  const e2e::Flow to{.from = 0, .to = peer};
  const e2e::Flow from{.from = peer, .to = 0};
  for (std::size_t i = 0; i < kSeats; ++i) {
    if (!fleet_.IsStruckAt(i, to)) continue;
    fleet_.relay(i).Cut(to);
    fleet_.relay(i).Cut(from);
  }
}

void Faults::SetPaths() {
  std::vector<Fleet::PathFault> all;
  for (const Wound& wound : wounds_) all.insert(all.end(), wound.paths.begin(), wound.paths.end());
  fleet_.SetPaths(all);
}

void Faults::CrashOn(Wound& wound) {
  if (Clock::now() < wound.next) return;
  fleet_.KillTrainer(wound.victim);
  fleet_.StartTrainer(wound.victim);
  wound.next = Clock::now() + std::chrono::milliseconds(Between(20, 400));
}

// A daemon that is still starting does not wait for the signal to read it.
void Faults::EndCertificate(Wound& wound) {
  if (!fleet_.IsUp(wound.victim)) return;
  fleet_.Certify(wound.victim, kCertificateLasts);
  wound.ends = Clock::now() + kCertificateLasts + std::chrono::seconds(1);
  wound.until = *wound.ends + std::chrono::milliseconds(Between(1000, 3000));
}

void Faults::CutOnceItHasEnded(Wound& wound) {
  if (!wound.ends || Clock::now() < *wound.ends) return;
  wound.ends.reset();
  CutPeer(fleet_.PeerOf(wound.victim));
  fleet_.CutMaster();
}

void Faults::Heal(bool all) {
  const Clock::time_point now = Clock::now();
  const Clock::duration passed = now - std::exchange(counted_, now);
  if (!Touches(kMaster)) heard_ += passed;
  for (Wound& wound : wounds_) {
    if (wound.fault == Fault::kCrashLoop) CrashOn(wound);
    if (wound.fault == Fault::kEndCertificate) CutOnceItHasEnded(wound);
  }
  for (std::size_t i = 0; i < wounds_.size();) {
    const Wound wound = wounds_[i];
    if ((!all && now < wound.until) || !EndsByItself(wound, now)) {
      ++i;
      continue;
    }
    wounds_.erase(wounds_.begin() + static_cast<std::ptrdiff_t>(i));  // first: the paths that remain are the others'
    if (wound.victim < kSeats) healed_at_[wound.victim] = heard_;
    Undo(wound);
  }
}

}  // namespace ringway::chaos
