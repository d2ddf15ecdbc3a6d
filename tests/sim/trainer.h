// Trainers of random worlds. All of a group run one program, which is a function of the seed and of how far they are,
// each at its own pace: operations on several channels, and an UpdateView when results say that a view waits (or when
// the program says so). There are two kinds of groups:
//
//   rounds        submits a few operations and waits for all of them before the next few
//   asynchronous  step after step, each trainer up to its own depth ahead of the first step that it was not told of.
//                 Steps count from the last UpdateView that succeeded, where newcomers begin too. Where a result says
//                 that a view waits, the step kDepthMax later is the UpdateView: all know it by then. Told
//                 world_too_small, most wait for what they have submitted and call UpdateView until it succeeds, the
//                 others go on with the program. So ranks call UpdateView after different numbers of operations.
//
// Some do what they should not: submit another descriptor than the others, give operations up.
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
  Duration pause_max = std::chrono::milliseconds(20);
  std::uint32_t mismatch_one_of = 0;  // submissions; 0: never
  std::uint32_t cancel_one_of = 0;
  std::uint32_t update_one_of = 16;  // rounds
  bool asynchronous = false;
};

class Trainers {
 public:
  Trainers(Cluster& cluster, std::mt19937_64& random, const TrainerOptions& options)
      : cluster_(cluster), random_(random), options_(options) {}

  // The cluster's news of a node.
  void OnNews(std::uint32_t node);
  // Rounds that begin above this sequence number of channel 0 are not begun.
  void StopAt(const std::string& group, std::uint64_t seq) { stop_at_[group] = seq; }
  std::uint64_t StopsAt(const std::string& group) const { return stop_at_.at(group); }
  // Whether they may make mistakes or cancel.
  bool GiveUp() const { return options_.mismatch_one_of != 0 || options_.cancel_one_of != 0; }
  // No more mistakes and cancellations.
  void Behave() { behaving_ = true; }
  // It submits nothing for so long.
  void Sleep(std::uint32_t node, Duration time) { states_[node].sleeps_until = cluster_.now() + time; }
  // It submits nothing any more.
  void Hang(std::uint32_t node) {
    Sleep(node, std::chrono::hours(1000));
    states_[node].hangs = true;
  }
  bool Hangs(std::uint32_t node) const { return states_.contains(node) && states_.at(node).hangs; }
  // Whether the node has come to its program's end.
  bool Finished(std::uint32_t node) const;
  // How far it is: the sequence number of channel 0 with which its next round begins.
  std::uint64_t Position(std::uint32_t node) const { return cluster_.NextSequence(node, 0); }

 private:
  struct Step {
    std::uint32_t channel = 0;
    Descriptor descriptor;
  };
  // Of an asynchronous trainer.
  struct Ahead {
    std::uint64_t depth = 0;    // 0: not drawn yet
    bool heeds = false;         // what world_too_small asks for
    bool submits = false;       // an event will submit the next step
    bool updates = false;       // the newest step is an UpdateView
    bool lacks_peers = false;   // it was told so: UpdateView until one succeeds
    std::uint64_t began = 0;    // the sequence number of channel 0 with which the steps begin
    std::vector<OpName> steps;  // submitted since
    std::size_t told = 0;       // of them, without a gap
    std::size_t update_at = 0;  // results say so; 0: none does
  };
  struct State {
    bool started = false;
    bool hangs = false;
    TimePoint sleeps_until{};
    bool waiting = false;                   // a round is under way
    std::vector<Step> round;                // what is still to be submitted of it
    std::map<std::uint32_t, OpName> first;  // of the round, by channel
    bool was_update = false;
    Ahead ahead;
  };
  static constexpr std::size_t kDepthMax = 8;

  void GoOn(std::uint32_t node);
  void SubmitStep(std::uint32_t node);
  void TakeOutcomes(std::uint32_t node);
  // Nothing: it has to wait first, or is at the end.
  std::optional<Step> NextStep(std::uint32_t node) const;
  bool AtEnd(std::uint32_t node) const;
  void BeginRound(std::uint32_t node);
  void SubmitNext(std::uint32_t node);
  bool UpdateWaits(std::uint32_t node) const;
  std::vector<Step> RoundAt(const std::string& group, std::uint64_t position, bool update_waits) const;
  Step StepAt(const std::string& group, std::uint64_t began, std::uint64_t index) const;
  Descriptor DescriptorOf(std::mt19937_64& program) const;
  // False if it leaves.
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
