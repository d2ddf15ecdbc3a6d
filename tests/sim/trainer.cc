#include "tests/sim/trainer.h"

#include <algorithm>
#include <array>

namespace ringway::sim {
namespace {

// What a round is made of must be cheap to seed: a generator for a few draws.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

void Trainers::OnNews(std::uint32_t node) {
  if (!cluster_.Here(node) || !cluster_.Joined(node)) return;
  State& state = states_[node];
  if (!state.started) {
    state.started = true;
    return Later(node, &Trainers::BeginRound);
  }
  if (!state.waiting || !state.round.empty() || !cluster_.AllDone({node})) return;
  state.waiting = false;
  Later(node, &Trainers::BeginRound);
}

void Trainers::Later(std::uint32_t node, void (Trainers::*then)(std::uint32_t)) {
  const auto pause =
      Duration(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.pause_max.count())));
  cluster_.events_queue().After(pause, [this, node, then] {
    if (!cluster_.Here(node)) return;
    if (cluster_.Stopped(cluster_.HostOf(node))) return Later(node, then);
    (this->*then)(node);
  });
}

bool Trainers::Finished(std::uint32_t node) const {
  const auto state = states_.find(node);
  const auto stop_at = stop_at_.find(cluster_.GroupOf(node));
  return state != states_.end() && stop_at != stop_at_.end() && !state->second.waiting &&
         Position(node) > stop_at->second && cluster_.AllDone({node});
}

// Whether the last round's results say so: the same on all ranks. After an UpdateView it is not asked, because the
// newcomers have seen no result yet.
bool Trainers::UpdateWaits(std::uint32_t node) const {
  const State& state = states_.at(node);
  if (state.was_update) return false;
  const auto& outcomes = cluster_.OutcomesOf(node);
  return std::any_of(state.first.begin(), state.first.end(), [&](const auto& first) {
    const auto end = outcomes.lower_bound(OpName{ChannelId(first.first + 1), 0});
    return std::any_of(outcomes.lower_bound(first.second), end, [](const auto& e) { return e.second.update_waits; });
  });
}

void Trainers::BeginRound(std::uint32_t node) {
  State& state = states_.at(node);
  const std::string& group = cluster_.GroupOf(node);
  const std::uint64_t position = Position(node);
  const auto stop_at = stop_at_.find(group);
  if (state.waiting) return;
  if (stop_at != stop_at_.end() && position > stop_at->second) return;
  const bool waits = UpdateWaits(node);
  state.round = RoundAt(group, position, waits);
  std::reverse(state.round.begin(), state.round.end());  // taken from the back
  state.was_update = state.round.back().descriptor.kind == OpKind::kUpdateView;
  state.first.clear();
  for (std::uint32_t channel = 0; channel < options_.channels; ++channel) {
    state.first[channel] = {ChannelId(channel), cluster_.NextSequence(node, channel)};
  }
  state.waiting = true;
  SubmitNext(node);
}

void Trainers::SubmitNext(std::uint32_t node) {
  State& state = states_.at(node);
  if (state.round.empty()) return;
  const Step step = state.round.back();
  state.round.pop_back();
  Descriptor descriptor = step.descriptor;
  if (descriptor.kind == OpKind::kAllReduce && Chance(options_.mismatch_one_of)) descriptor.count += 1;
  const OpName name{ChannelId(step.channel), cluster_.NextSequence(node, step.channel)};
  if (!cluster_.Submit(node, descriptor, step.channel)) return;  // it leaves
  if (Chance(options_.cancel_one_of)) cluster_.Cancel(node, name);
  if (!state.round.empty()) Later(node, &Trainers::SubmitNext);
}

std::vector<Trainers::Step> Trainers::RoundAt(const std::string& group, std::uint64_t position,
                                              bool update_waits) const {
  std::mt19937_64 program(Mix(options_.seed * 1000003 + position * 31 + group.back()));
  const bool update = program() % options_.update_one_of == 0;
  if (update || update_waits) {
    return {{0, {OpKind::kUpdateView, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0}}};
  }
  std::vector<Step> round(1 + program() % options_.ops_per_round_max);
  for (Step& step : round) {
    step.channel = static_cast<std::uint32_t>(program() % options_.channels);
    step.descriptor = DescriptorOf(program);
  }
  round.front().channel = 0;  // every round moves on
  return round;
}

Descriptor Trainers::DescriptorOf(std::mt19937_64& program) const {
  constexpr std::array kDTypes = {DType::kF32, DType::kF32, DType::kF32, DType::kI32,
                                  DType::kU8,  DType::kF64, DType::kI64, DType::kBF16};
  constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kAvg,
                               ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};
  Descriptor descriptor;
  descriptor.dtype = kDTypes[program() % kDTypes.size()];
  descriptor.op = kOps[program() % kOps.size()];
  if (options_.codecs && descriptor.dtype == DType::kF32)
    descriptor.codec = static_cast<Codec>(program() % kCodecCount);
  if (!IsSupported(descriptor.dtype, descriptor.op, descriptor.codec)) {
    descriptor.op = ReduceOp::kSum;
  }
  if (program() % 2 == 0) descriptor.schedule = static_cast<Algorithm>(program() % kAlgorithmCount);
  // Many are tiny or empty; the others are of any size.
  const std::uint64_t shape = program() % 8;
  descriptor.count = shape == 0 ? 0 : shape <= 3 ? 1 + program() % 300 : 1 + program() % options_.count_max;
  return descriptor;
}

}  // namespace ringway::sim
