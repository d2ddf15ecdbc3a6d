// The faults of a chaos run: their effect on the fleet, and how they are healed.
//
//   Strike --> (the fault acts) --> Heal
//
// At least kUntouchedMin seats are without a fault at any time. A seat that was struck counts as touched until it is
// healed; the master and the network as a whole are victims of their own.
//
// Threads: one, the fleet's.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/chaos/fleet.h"

namespace ringway::chaos {

inline constexpr std::size_t kUntouchedMin = 2;

enum class Fault {
  kKillDaemon,       // SIGKILL; a new one on the same socket after a while
  kTerminateDaemon,  // SIGTERM: it must end by itself, with code 0; a new one after a while
  kFreezeDaemon,     // SIGSTOP, SIGCONT
  kKillTrainer,      // SIGKILL; a new one after a while
  kFreezeTrainer,    // SIGSTOP, SIGCONT
  kLeave,            // SIGTERM at the trainer: it leaves, must end with code 0; a new one after a while
  kKillMaster,       // SIGKILL; a new one on the same port and journal after a while
  kFreezeMaster,     // SIGSTOP, SIGCONT
  kCut,              // RST on all connections of one daemon
  kCorrupt,          // flips one bit of a byte in transit to one daemon
  kSlow,             // delay both ways between one daemon and the others
  kBlackHole,        // nothing passes between one daemon and the others
  kDeaf,             // nothing passes to it
  kMute,             // nothing passes from it
  kFewDescriptors,   // a daemon may open no more files for a while
  kCrashLoop,        // newcomers are killed one after the other, before they are members or soon after
  kCutOffMaster,     // nothing passes between the master and the daemons, both ways or one way
  kNoise,            // one in some hundred thousand bytes of everything is changed
  kEndCertificate,   // a daemon's certificate ends, then its connections are cut; a new one after a while
  kMoveClock,        // a daemon's wall clock jumps, by seconds to years; then its connections are cut, so that with TLS
                     // all certificates have ended, or do not hold yet
  kMoveMasterClock,  // the same of the master
  kNoNames,          // the daemon's host resolves no names, or does not answer; connections to the master are cut
  kFullDisk,         // that of the master's journal
  kFlood,            // another local user connects to the daemon's socket as often as it can
  kNoNameServer,     // the host's name server is down; connections to the master are cut
};
inline constexpr std::size_t kFaultCount = 25;
const char* NameOf(Fault fault);

struct FaultOptions {
  std::uint64_t seed = 1;
  std::uint64_t cut_off_max_ms = 4000;  // of the master
};

class Faults {
 public:
  using Clock = std::chrono::steady_clock;

  Faults(Fleet& fleet, const FaultOptions& options);

  // Draws a fault and a victim, strikes, and returns a description: "kill_daemon 3 for 412 ms"; nullopt if too many
  // seats are touched already. Kinds come in random order, none again before all others had their turn.
  std::optional<std::string> Strike();
  // Heals faults that are due, or all possible ones: a process that is to end is awaited first. Never blocks for long.
  void Heal(bool all = false);
  bool healed() const { return wounds_.empty(); }
  bool Touches(std::size_t seat) const;
  // Returns whether it has been untouched for long enough that all consequences are over, including a recovery by the
  // master.
  bool IsUntouched(std::size_t seat) const;

  const std::map<std::string, std::uint64_t>& struck() const { return struck_; }
  // Processes that did not end as expected, one line each.
  const std::vector<std::string>& troubles() const { return troubles_; }

 private:
  // Numbers of further victims.
  static constexpr std::size_t kMaster = kSeats;
  static constexpr std::size_t kNetwork = kSeats + 1;
  struct Wound {
    Fault fault;
    std::size_t victim;
    Clock::time_point until;
    std::vector<Fleet::PathFault> paths = {};
    Clock::time_point next = {};                 // of a crash loop
    std::optional<Clock::time_point> ends = {};  // of a certificate, whose connections stand until then
  };

  Fault Draw();
  // Returns whether it can be struck on this host and by this build.
  bool IsPossibleHere(Fault fault) const;
  std::chrono::milliseconds DurationOf(Fault fault);
  std::optional<std::size_t> Victim(Fault fault);
  bool Possible(Fault fault, std::size_t seat) const;
  void Act(Wound* wound);
  void ActOnHost(Wound* wound);
  // Returns whether the wound can be healed without waiting.
  bool EndsByItself(const Wound& wound, Clock::time_point now);
  void Undo(const Wound& wound);
  void MoveClock(Surroundings& surroundings);
  // All connections of the peer's daemon.
  void CutPeer(std::uint64_t peer);
  void SetPaths();
  void CrashOn(Wound& wound);
  void EndCertificate(Wound& wound);
  void CutOnceItHasEnded(Wound& wound);
  std::uint64_t Between(std::uint64_t low, std::uint64_t high) { return low + dice_() % (high - low + 1); }

  Fleet& fleet_;
  const FaultOptions options_;
  std::mt19937_64 dice_;
  std::vector<Fault> bag_;
  std::vector<Wound> wounds_;
  Clock::duration heard_{};  // total time with an untouched master
  Clock::time_point counted_ = Clock::now();
  std::array<Clock::duration, kSeats> healed_at_{};  // in terms of heard_
  std::map<std::string, std::uint64_t> struck_;
  std::vector<std::string> troubles_;
};

}  // namespace ringway::chaos
