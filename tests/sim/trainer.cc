#include "tests/sim/trainer.h"

#include <algorithm>
#include <array>

namespace ringway::sim {
namespace {

// A generator for a few draws, because each round needs one that is cheap to seed.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kWithoutFromMax = 8;

constexpr Descriptor kUpdateView{OpKind::kUpdateView, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};

Encoding SomeEncoding(std::mt19937_64& program) {
  Encoding encoding(kCodecs[program() % kCodecCount].codec);
  const std::uint64_t how = program();
  if (encoding.block > 0) encoding.block = static_cast<std::uint16_t>(kBlockMin << how % 6);
  if (encoding.codec != Codec::kNone && how / 8 % 4 == 0) encoding.rounding = Rounding::kStochastic;
  return encoding;
}

}  // namespace

void Trainers::OnNews(std::uint32_t node) {
  if (!cluster_.Here(node) || !cluster_.Joined(node)) return;
  State& state = states_[node];
  if (options_.asynchronous) return GoOn(node);
  if (!state.started) {
    state.started = true;
    return Later(node, &Trainers::BeginRound);
  }
  if (!state.waiting || !state.round.empty() || !cluster_.AllDone({node})) return;
  state.waiting = false;
  Later(node, &Trainers::BeginRound);
}

void Trainers::Later(std::uint32_t node, void (Trainers::*then)(std::uint32_t)) {
  const Duration drawn(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.pause_max.count())) *
                       SlownessOf(node));
  const Duration pause = std::max<Duration>(drawn, states_[node].sleeps_until - cluster_.now());
  cluster_.events_queue().After(pause, [this, node, then] {
    if (!cluster_.Here(node)) return;
    if (cluster_.Stopped(cluster_.HostOf(node))) return Later(node, then);
    (this->*then)(node);
  });
}

bool Trainers::Finished(std::uint32_t node) const {
  const auto state = states_.find(node);
  return state != states_.end() && !state->second.waiting && AtEnd(node) && cluster_.AllDone({node});
}

bool Trainers::AtEnd(std::uint32_t node) const {
  const auto stop_at = stop_at_.find(cluster_.GroupOf(node));
  return stop_at != stop_at_.end() && Position(node) > stop_at->second;
}

// ---------------------------------------------------------------------------------------------- asynchronous

void Trainers::GoOn(std::uint32_t node) {
  Ahead& ahead = states_.at(node).ahead;
  if (ahead.depth == 0) {
    ahead.depth = 1 + random_() % kDepthMax;
    ahead.heeds = random_() % 4 != 0;
    ahead.began = Position(node);
  }
  TakeOutcomes(node);
  if (ahead.submits || !NextStep(node)) return;
  ahead.submits = true;
  Later(node, &Trainers::SubmitStep);
}

void Trainers::SubmitStep(std::uint32_t node) {
  states_.at(node).ahead.submits = false;
  if (const auto step = NextStep(node)) {  // an outcome may have been reported meanwhile
    Ahead& ahead = states_.at(node).ahead;
    ahead.updates = step->descriptor.kind == OpKind::kUpdateView;
    ahead.steps.push_back({ChannelId(step->channel), cluster_.NextSequence(node, step->channel)});
    if (!Submit(node, *step)) return;
  }
  GoOn(node);
}

void Trainers::TakeOutcomes(std::uint32_t node) {
  Ahead& ahead = states_.at(node).ahead;
  const auto& outcomes = cluster_.OutcomesOf(node);
  for (; ahead.reported < ahead.steps.size(); ++ahead.reported) {
    const auto found = outcomes.find(ahead.steps[ahead.reported]);
    if (found == outcomes.end()) return;
    const Outcome& outcome = found->second;
    if (outcome.code == Code::kWorldTooSmall && ahead.heeds) ahead.lacks_peers = true;
    if (outcome.code != Code::kOk) continue;
    if (outcome.descriptor.kind == OpKind::kUpdateView) {  // the last one: nothing is submitted behind it
      ahead.lacks_peers = false;
      ahead.began = Position(node);
      ahead.steps.clear();
      ahead.reported = ahead.update_at = 0;
      return;
    }
    if (outcome.update_waits && ahead.update_at == 0) ahead.update_at = ahead.reported + kDepthMax;
  }
}

std::optional<Trainers::Step> Trainers::NextStep(std::uint32_t node) const {
  const Ahead& ahead = states_.at(node).ahead;
  const std::size_t index = ahead.steps.size();
  const std::size_t open = index - ahead.reported;
  if (AtEnd(node) || open >= (ahead.updates ? 1 : ahead.depth)) return std::nullopt;
  const bool update = ahead.lacks_peers || (ahead.update_at != 0 && index >= ahead.update_at);
  const Step step = update ? Step{0, kUpdateView} : StepAt(cluster_.GroupOf(node), ahead.began, index);
  if (step.descriptor.kind == OpKind::kUpdateView && open > 0) return std::nullopt;
  return step;
}

Trainers::Step Trainers::StepAt(const std::string& group, std::uint64_t began, std::uint64_t index) const {
  std::mt19937_64 program(Mix(options_.seed * 1000003 + Mix(began * 7919 + index) + group.back()));
  if (program() % (3 * options_.update_one_of) == 0) return {0, kUpdateView};
  const auto channel = static_cast<std::uint32_t>(program() % options_.channels);
  return {channel, DescriptorOf(program)};
}

// ---------------------------------------------------------------------------------------------- rounds

// Returns whether the last round's results say so: the same on all ranks. After an UpdateView it is not asked, because
// the newcomers have seen no result yet.
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
  if (state.waiting || AtEnd(node)) return;
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
  if (!Submit(node, step)) return;
  if (!state.round.empty()) Later(node, &Trainers::SubmitNext);
}

bool Trainers::Submit(std::uint32_t node, const Step& step) {
  const bool errs = step.descriptor.kind != OpKind::kUpdateView && Chance(options_.mismatch_one_of);
  const Descriptor descriptor = errs ? MistakenFor(step.descriptor) : step.descriptor;
  const OpName name{ChannelId(step.channel), cluster_.NextSequence(node, step.channel)};
  if (!cluster_.Submit(node, descriptor, step.channel)) {
    // Where the others went on without this rank its mistake is refused, or they went on with a mistake.
    const bool corrected = errs && cluster_.Submit(node, step.descriptor, step.channel);
    if (!corrected && options_.quorums && cluster_.Here(node)) cluster_.Leave(node);
    return corrected;
  }
  if (Chance(options_.cancel_one_of)) cluster_.Cancel(node, name);
  return true;
}

// Another count, reduction or algorithm, or another operation altogether. By chance it may be the right one.
Descriptor Trainers::MistakenFor(const Descriptor& right) {
  const std::uint64_t what = random_() % 3;
  Descriptor mistaken = right;
  const bool has_twin = Reduces(right.kind) && right.codec == Codec::kNone && right.count % 2 == 0;
  if (what == 0 && has_twin) {  // of the same size: nothing but the descriptors tells them apart
    mistaken.op = right.op == ReduceOp::kSum ? ReduceOp::kMax : ReduceOp::kSum;
  } else if (what == 0 && !IsEmpty(right.kind)) {
    ++mistaken.count;
  } else if (what == 1) {
    const auto any = static_cast<Algorithm>(random_() % kAlgorithmCount);
    mistaken.schedule = collective::AlgorithmFor(right.kind, any);
  } else {
    mistaken = DescriptorOf(random_);
  }
  return mistaken;
}

std::vector<Trainers::Step> Trainers::RoundAt(const std::string& group, std::uint64_t position,
                                              bool update_waits) const {
  std::mt19937_64 program(Mix(options_.seed * 1000003 + position * 31 + group.back()));
  const bool update = program() % options_.update_one_of == 0;
  if (update || update_waits) {
    return {{0, kUpdateView}};
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
  if (options_.codecs && descriptor.dtype == DType::kF32) descriptor.codec = SomeEncoding(program);
  if (!IsSupported(descriptor.dtype, descriptor.op, descriptor.codec)) {
    descriptor.op = ReduceOp::kSum;
  }
  constexpr std::array kKinds = {OpKind::kAllReduce, OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter};
  descriptor.kind = kKinds[program() % kKinds.size()];
  if (options_.every_kind && program() % 4 != 0) {
    constexpr std::array kOthers = {OpKind::kBroadcast, OpKind::kReduce,   OpKind::kGather,
                                    OpKind::kScatter,   OpKind::kAllToAll, OpKind::kBarrier};
    descriptor.kind = kOthers[program() % kOthers.size()];
    descriptor.root = static_cast<std::uint8_t>(program());  // of those the trainer knows
    // Some with counts by rank instead.
    const std::uint8_t which = descriptor.root % 4;
    if (descriptor.kind == OpKind::kAllToAll && which != 0) descriptor.kind = OpKind::kAllToAllV;
    if (descriptor.kind == OpKind::kScatter && which == 1) descriptor.kind = OpKind::kAllGatherV;
    if (descriptor.kind == OpKind::kScatter && which == 2) descriptor.kind = OpKind::kReduceScatterV;
  }
  if (program() % 2 == 0) {
    const auto any = static_cast<Algorithm>(program() % kAlgorithmCount);
    descriptor.schedule = collective::AlgorithmFor(descriptor.kind, any);
  }
  // Many are tiny or empty; the others are of any size.
  const std::uint64_t shape = program() % 8;
  descriptor.count = shape == 0 || IsEmpty(descriptor.kind) ? 0
                     : shape <= 3                           ? 1 + program() % 300
                                                            : 1 + program() % options_.count_max;
  const bool sums = descriptor.op == ReduceOp::kSum || descriptor.op == ReduceOp::kAvg;
  if (options_.quorums && descriptor.kind == OpKind::kAllReduce && sums) {
    const std::uint64_t how = program();
    constexpr std::array kQuorums = {Quorum{}, Quorum::Ranks(1), Quorum::Ranks(2), Quorum::Ranks(3),
                                     Quorum::Percent(50)};
    descriptor.quorum = kQuorums[how % kQuorums.size()].code;
    descriptor.weighted = descriptor.op == ReduceOp::kAvg && how / 8 % 3 != 0;
    // Whoever the newest are: trainers give all peers from some id on no part in it.
    if (!descriptor.agrees_on_inputs() || how / 32 % 4 == 0) {
      descriptor.quorum = 0;
      descriptor.weighted = false;
      descriptor.layout = 2 + how / 128 % kWithoutFromMax;
    }
  }
  return descriptor;
}

}  // namespace ringway::sim
