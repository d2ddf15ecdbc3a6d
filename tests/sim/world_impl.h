// A world as world.cc and world_faults.cc build it.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/message_traffic.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace ringway::sim {

inline constexpr std::size_t kNodesMax = 14;  // over the whole life of a world

// Draws from one generator.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  std::uint64_t Between(std::uint64_t min, std::uint64_t max) { return min + Below(max - min + 1); }
  bool OneOf(std::uint64_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Below(from.size())];
  }
  std::mt19937_64& generator() { return random_; }

 private:
  std::mt19937_64 random_;
};

class World {
 public:
  World(std::uint64_t seed, bool trace, const Recording& recording);
  WorldReport Run();

  struct Kind {
    std::string name;
    bool silences = false;               // a live process may seem dead
    bool harms = true;                   // a member or its links to others: a recovery may follow
    std::function<bool(World&)> strike;  // returns false if there was no victim
  };
  static const std::vector<Kind>& Kinds();

 private:
  static ClusterOptions DrawCluster(std::uint64_t seed, Dice& dice);
  static ClusterOptions WithRecording(ClusterOptions options, bool trace, const Recording& recording);
  static TrainerOptions DrawTrainers(std::uint64_t seed, Dice& dice);
  Inbound InboundOf(std::uint64_t seed, std::uint32_t place) const;

  void CheckForStorm();
  void KeepOnly(const std::set<std::string>& names);
  bool IsCalm() const;
  bool IsPeaceful() const;
  bool AnswersInTime() const;
  void CheckPeace(const std::string& group);
  void OnNews(std::uint32_t node);
  void JoinLater(Host host, const std::string& group);
  JoinOrder OrderOf(const std::string& group, std::uint32_t wait_world);
  void NextFault();
  void ScribbleOnce();
  void Heal();
  std::uint64_t Furthest(const std::string& group) const;
  void HelpForming();
  bool Settled(const std::string& group) const;
  std::string WhatWaits() const;
  std::string Memory(const std::vector<std::uint32_t>& nodes) const;
  void RecordOver();
  void Finish();

  std::vector<std::uint32_t> NodesHere(const std::string& group) const;
  std::vector<std::uint32_t> Members(const std::string& group) const;
  std::vector<std::uint32_t> Able(const std::string& group) const;
  std::optional<std::uint32_t> AnyMember();
  std::optional<Host> AnyDaemon();
  std::optional<std::pair<Host, Host>> AnyPair();
  void Count(const std::string& what) { ++report_.counts[what]; }

  // ---- faults
  bool Kill(bool silently);
  bool Stop();
  bool Silence(Host from, Host to, bool both);
  bool SilencePair(bool both);
  bool SilenceMaster();
  bool BreakMaster();
  bool KillMaster(bool when_recorded);
  bool FillDisk();
  bool MayBreakALink();
  bool CutControl();
  bool FlipABit();
  bool FlipBits();
  bool CutLane();
  bool WantLanes();
  bool ChangeRates();
  bool AddNewcomer();
  bool LetTrainerSleep();
  bool LetTrainerHang();
  bool LeaveGroup(bool abandon);
  bool CutOffMaster();
  bool CutOffMasterInRecovery();
  bool CutOffMost();
  bool KillNewcomer();
  void Restart(Host host);

  Dice dice_;
  Cluster cluster_;
  Trainers trainers_;
  std::optional<MessageTraffic> traffic_;  // of worlds with sends and recvs
  std::vector<std::string> groups_;
  std::uint32_t world_size_ = 0;
  std::uint32_t min_world_max_ = 1;
  bool draws_min_world_ = false;  // each trainer its own, up to that maximum; else all ask for the maximum
  bool fail_on_peer_loss_ = false;
  std::vector<Kind> kinds_;  // of this world
  Duration fault_gap_{};
  TimePoint faults_end_{};
  TimePoint cut_off_until_{};  // the master, from most
  TimePoint link_broken_{};    // last time, by a fault without consequences
  bool calm_ = false;          // no live process can seem dead
  bool peaceful_ = false;      // also no member dies or cancels: no fault of the master may affect the members
  bool hangs_ = false;         // trainers may hang for good, and leave then
  bool healed_ = false;
  WorldReport report_;
};

}  // namespace ringway::sim
