// Trainers of random worlds. All trainers of a group run one program, a function of the seed and of their position,
// each at its own speed: operations on several channels, and an UpdateView when a result has update_waits set (or when
// the program has one). There are two kinds of groups:
//
//   rounds        submits a few operations and waits for all of them before the next few
//   asynchronous  step after step, each trainer up to its own depth ahead of its first step without an outcome. Steps
//                 count from the last successful UpdateView, where newcomers start, too. kDepthMax steps after a result
//                 with update_waits comes the UpdateView: by then all have seen it. On world_too_small most wait for
//                 what they have submitted and call UpdateView until it succeeds, the others continue the program. So
//                 ranks call UpdateView after different numbers of operations.
//
// Some misbehave: submit another descriptor than the others, or cancel operations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace ringway::sim {

struct TrainerOptions {
  std::uint64_t seed = 1;  // of the program
  std::uint32_t channels = 1;
  std::uint32_t ops_per_round_max = 3;
  std::uint64_t count_max = 4000;  // elements of an operation
  bool codecs = false;
  bool every_kind = false;  // else those without a root
  Duration pause_max = std::chrono::milliseconds(20);
  std::uint32_t mismatch_one_of = 0;  // submissions; 0: never
  std::uint32_t cancel_one_of = 0;
  std::uint32_t update_one_of = 16;  // rounds
  bool asynchronous = false;
  bool quorums = false;  // some all-reduces have a quorum or weights, and every third trainer is slow
};

class Trainers {
 public:
  Trainers(Cluster& cluster, std::mt19937_64& random, const TrainerOptions& options)
      : cluster_(cluster), random_(random), options_(options) {}

  // The world calls this when something has happened to the node.
  void OnNews(std::uint32_t node);
  // No round starts above this sequence number of channel 0.
  void StopAt(const std::string& group, std::uint64_t seq) { stop_at_[group] = seq; }
  std::uint64_t StopsAt(const std::string& group) const { return stop_at_.at(group); }
  // Returns whether they may make mistakes or cancel.
  bool GiveUp() const { return options_.mismatch_one_of != 0 || options_.cancel_one_of != 0; }
  // No more mistakes and cancellations.
  void Behave() { behaving_ = true; }
  // It submits nothing for this time.
  void Sleep(std::uint32_t node, Duration time) { states_[node].sleeps_until = cluster_.now() + time; }
  // It submits nothing from now on.
  void Hang(std::uint32_t node) {
    Sleep(node, std::chrono::hours(1000));
    states_[node].hangs = true;
  }
  bool Hangs(std::uint32_t node) const { return states_.contains(node) && states_.at(node).hangs; }
  // Returns whether the node has completed its program.
  bool Finished(std::uint32_t node) const;
  // Its position: the sequence number of channel 0 with which its next round starts.
  std::uint64_t Position(std::uint32_t node) const { return cluster_.NextSequence(node, 0); }

 private:
  struct Step {
    std::uint32_t channel = 0;
    Descriptor descriptor;
  };
  // State of an asynchronous trainer.
  struct Ahead {
    std::uint64_t depth = 0;    // 0: not drawn yet
    bool heeds = false;         // calls UpdateView on world_too_small
    bool submits = false;       // an event to submit the next step is queued
    bool updates = false;       // the newest step is an UpdateView
    bool lacks_peers = false;   // got world_too_small: UpdateView until one succeeds
    std::uint64_t began = 0;    // the sequence number of channel 0 with which the steps start
    std::vector<OpName> steps;  // submitted since
    std::size_t reported = 0;   // of them, reported without a gap
    std::size_t update_at = 0;  // step of the next UpdateView; 0: none
  };
  struct State {
    bool started = false;
    bool hangs = false;
    TimePoint sleeps_until{};
    bool waiting = false;                   // a round is in progress
    std::vector<Step> round;                // its steps to submit
    std::map<std::uint32_t, OpName> first;  // of the round, by channel
    bool was_update = false;
    Ahead ahead;
  };
  static constexpr std::size_t kDepthMax = 8;

  void GoOn(std::uint32_t node);
  void SubmitStep(std::uint32_t node);
  void TakeOutcomes(std::uint32_t node);
  // nullopt: it has to wait first, or is at the end.
  std::optional<Step> NextStep(std::uint32_t node) const;
  bool AtEnd(std::uint32_t node) const;
  void BeginRound(std::uint32_t node);
  void SubmitNext(std::uint32_t node);
  bool UpdateWaits(std::uint32_t node) const;
  // A slow trainer takes so many times as long.
  std::int64_t SlownessOf(std::uint32_t node) const { return options_.quorums && !behaving_ && node % 3 == 2 ? 12 : 1; }
  std::vector<Step> RoundAt(const std::string& group, std::uint64_t position, bool update_waits) const;
  Step StepAt(const std::string& group, std::uint64_t began, std::uint64_t index) const;
  Descriptor DescriptorOf(std::mt19937_64& program) const;
  Descriptor MistakenFor(const Descriptor& right);
  // Returns false if it leaves.
  bool Submit(std::uint32_t node, const Step& step);
  void Later(std::uint32_t node, void (Trainers::*then)(std::uint32_t));
  bool Chance(std::uint32_t one_of) { return !behaving_ && one_of != 0 && random_() % one_of == 0; }

  Cluster& cluster_;
  std::mt19937_64& random_;
  const TrainerOptions options_;
  std::map<std::uint32_t, State> states_;
  std::map<std::string, std::uint64_t> stop_at_;
  bool behaving_ = false;
};

}  // namespace ringway::sim
