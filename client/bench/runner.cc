#include "client/bench/runner.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "client/bench/collective.h"

namespace ringway::bench {
namespace {

// Channel 0 has the measured operations, 1 the companion's.
constexpr std::uint32_t kFirstChannel = 2;
constexpr std::uint32_t kOthersChannel = 3;
// Operations with a quorum go on without a slower rank, which is evicted once it is 1,024 of them behind.
constexpr std::uint32_t kOperationsAheadMax = 512;

ProcessUsage Since(const ProcessUsage& before, ProcessUsage after) {
  after.cpu_seconds -= before.cpu_seconds;
  return after;
}

// A lower bound of the retransmits: lanes that closed meanwhile took their counts with them.
std::optional<LaneUsage> Since(const std::optional<LaneUsage>& before, std::optional<LaneUsage> after) {
  if (!before || !after) return std::nullopt;
  after->retransmits -= std::min(after->retransmits, before->retransmits);
  return after;
}

}  // namespace

Runner::Runner(const Options& options, Session* session, int daemon_pid)
    : options_(options), session_(session), daemon_pid_(daemon_pid) {}

Result<std::vector<SizeResult>> Runner::Run(const std::function<void(const SizeResult&)>& on_result) {
  if (Status error = AllocateBuffers(); !error.ok()) return error;
  std::vector<SizeResult> results;
  if (Status error = AdoptViews(options_.settle); !error.ok()) return error;
  for (const std::uint64_t bytes : options_.Sizes()) {
    auto result = RunSize(bytes);
    if (!result.ok()) return result.status();
    on_result(result.value());
    results.push_back(result.value());
  }
  return results;
}

Result<std::uint64_t> Runner::Most(std::uint64_t value) {
  auto work = session_->AllReduceAsync(&value, &value, 1, DType::kU64, ReduceOp::kMax);
  if (!work.ok()) return work.status();
  const auto outcome = work->Wait(options_.timeout);
  return outcome.ok() ? Result(value) : outcome.status();
}

Status Runner::AdoptViews(std::chrono::milliseconds wait) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kIdle = std::chrono::seconds(2);  // daemons probe paths while nothing is in flight
  const auto end = Clock::now() + wait;
  for (;;) {
    std::uint8_t is_over = Clock::now() >= end ? 1 : 0;
    auto work = session_->AllReduceAsync(&is_over, &is_over, 1, DType::kU8, ReduceOp::kMax);
    if (!work.ok()) return work.status();
    auto outcome = work->Wait(options_.timeout);
    if (!outcome.ok()) return outcome.status();
    if (outcome->update_waits) {
      if (auto view = session_->UpdateView(options_.timeout); !view.ok()) return view.status();
    }
    if (is_over != 0) return {};
    std::this_thread::sleep_for(kIdle);
  }
}

Status Runner::AllocateBuffers() {
  for (std::uint32_t i = 0; i < options_.in_flight; ++i) {
    for (std::vector<Memory>* const memories : {&inputs_, &outputs_}) {
      if (memories == &outputs_ && options_.in_place) continue;
      auto memory = Memory::Allocate(session_, std::ranges::max(options_.Sizes()), options_.device);
      if (!memory.ok()) return memory.status();
      memories->push_back(std::move(memory.value()));
    }
  }
  if (options_.beside_bytes == 0) return {};
  companion_.emplace(session_, options_.beside_bytes, options_.timeout);
  return companion_->Allocate();
}

Result<SizeResult> Runner::RunSize(std::uint64_t bytes) {
  SizeResult result;
  result.bytes = bytes;
  result.collective = options_.collective;
  result.reduction = options_.reduction;
  result.count = result.input_count = bytes / SizeOf(options_.reduction.dtype);
  if (CountsByRank(options_.collective)) {  // fixed per rank, even if a loss makes the world smaller
    result.input_count /= session_->world_size();
    result.count = result.input_count * session_->world_size();
    result.bytes = result.count * SizeOf(options_.reduction.dtype);
  }
  result.world_before = session_->world_size();
  result.in_flight = options_.in_flight;
  result.tensors = options_.tensors;
  result.in_place = options_.in_place;
  result.device = options_.device;
  result.iterations = options_.iterations;
  result.checked = options_.check;
  if (Status error = FillInputs(result); !error.ok()) return error;
  if (Status error = WarmUp(&result); !error.ok()) return error;
  if (Status error = Measure(&result); !error.ok()) return error;
  if (companion_) {
    if (Status error = MeasureBeside(&result); !error.ok()) return error;
  }
  if (Status error = MeasureBaselines(&result); !error.ok()) return error;
  return result;
}

Status Runner::WarmUp(SizeResult* result) {
  Totals unused;
  for (std::uint32_t i = 0; i < options_.warmup; ++i) {
    if (auto time_ms = RunIteration(result, &unused); !time_ms.ok()) return time_ms.status();
  }
  if (companion_) {
    if (Status error = companion_->RunOnce(); !error.ok()) return error;
  }
  result->retries = 0;
  // Adopt plan changes caused by the warm-up now, not during an iteration.
  return AdoptViews({});
}

Status Runner::Measure(SizeResult* result) {
  const std::optional<LaneUsage> lanes_before = LaneUsageOf(options_.socket_path, session_->peer_id());
  if (Status error = Barrier(); !error.ok()) return error;  // the query took longer on some ranks than on others
  const ProcessUsage trainer_before = UsageOf(getpid());
  const ProcessUsage daemon_before = UsageOf(daemon_pid_);
  Totals totals;
  result->began_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (std::uint32_t i = 0; i < options_.iterations; ++i) {
    auto time_ms = RunIteration(result, &totals);
    if (!time_ms.ok()) return time_ms.status();
    result->times_ms.push_back(time_ms.value() / options_.in_flight);
  }
  result->trainer = Since(trainer_before, UsageOf(getpid()));
  result->daemon = Since(daemon_before, UsageOf(daemon_pid_));
  result->lanes = Since(lanes_before, LaneUsageOf(options_.socket_path, session_->peer_id()));
  result->time = Summarise(result->times_ms);
  result->algbw_gb_per_s = AlgorithmBandwidth(result->bytes, result->time.median_ms);
  result->busbw_gb_per_s = BusBandwidth(result->algbw_gb_per_s, result->world_size, result->collective);
  result->inputs = totals.inputs;
  result->inputs_late = totals.late;
  result->wire_bytes = totals.wire_bytes / std::max<std::uint64_t>(totals.operations, 1);
  const double line_bytes_per_ms = options_.line_mbit * 1e6 / 8 / 1e3;
  if (line_bytes_per_ms > 0) {
    result->line_fraction = static_cast<double>(result->wire_bytes) / line_bytes_per_ms / result->time.median_ms;
  }
  return {};
}

Status Runner::MeasureBeside(SizeResult* result) {
  BesideResult beside{.bytes = options_.beside_bytes, .times_ms = {}, .time = {}};
  Totals unused;
  for (std::uint32_t i = 0; i < options_.warmup + options_.iterations; ++i) {
    if (Status error = companion_->KeepBusy(); !error.ok()) return error;
    auto time_ms = RunIteration(result, &unused);
    if (!time_ms.ok()) return time_ms.status();
    if (i >= options_.warmup && companion_->busy()) beside.times_ms.push_back(time_ms.value() / options_.in_flight);
  }
  const auto submitted = Most(companion_->submitted());
  if (!submitted.ok()) return submitted.status();
  if (Status error = companion_->Finish(submitted.value()); !error.ok()) return error;
  if (!beside.times_ms.empty()) beside.time = Summarise(beside.times_ms);
  result->beside = std::move(beside);
  return {};
}

// Daemons probe paths while no operation is in flight, which would disturb the other system. So each rank keeps one in
// flight that the rest (for rank 0) or rank 0 (for the rest) submits only when all are done.
Status Runner::MeasureBaselines(SizeResult* result) {
  for (const Baseline& baseline : options_.baselines) {
    if (Status error = Barrier(); !error.ok()) return error;
    const bool is_first = session_->rank() == 0;
    std::array<std::uint8_t, 2> values{};
    const auto submit = [&](bool first_s) {
      std::uint8_t* const value = &values[first_s ? 0 : 1];
      return session_->AllReduceAsync(value, value, 1, DType::kU8, ReduceOp::kMax,
                                      {.channel = first_s ? kFirstChannel : kOthersChannel});
    };
    auto own = submit(is_first);
    if (!own.ok()) return own.status();
    auto measured = RunBaseline(baseline,
                                {.rank = session_->rank(),
                                 .world = session_->world_size(),
                                 .bytes = result->bytes,
                                 .iterations = options_.iterations,
                                 .warmup = options_.warmup},
                                std::chrono::duration_cast<std::chrono::seconds>(options_.timeout * 9 / 10));
    if (Status error = Barrier(); !error.ok()) return error;
    auto others = submit(!is_first);
    if (!others.ok()) return others.status();
    for (Work* work : {&own.value(), &others.value()}) {
      if (auto outcome = work->Wait(options_.timeout); !outcome.ok()) return outcome.status();
    }
    if (!measured.ok()) {
      result->baselines.push_back({.name = baseline.name, .failed = measured.status().text()});
    } else if (measured.value()) {
      result->baselines.push_back(*measured.value());
    }
  }
  return {};
}

std::string Runner::FeedbackName(const SizeResult& result, std::uint32_t operation) const {
  if (!options_.reduction.feedback && options_.late != Late::kNext) return "";
  return "bench." + std::to_string(result.count) + "." + std::to_string(operation);
}

Result<double> Runner::RunIteration(SizeResult* result, Totals* totals) {
  using Clock = std::chrono::steady_clock;
  ++iteration_;
  if (options_.check) {
    // Filling and checking take longer on some ranks than on others, which must not count as operation time.
    if (Status error = FillInputs(*result); !error.ok()) return error;
  }
  const bool meets = iteration_ % std::max(1U, kOperationsAheadMax / options_.in_flight) == 0;
  if (options_.check || (options_.quorum != Quorum::All() && meets)) {
    if (Status error = Barrier(); !error.ok()) return error;
  }
  std::vector<Work> works, sends;
  std::vector<OpResult> outcomes;
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < options_.in_flight; ++i) {
    const Buffers buffers{inputs_[i].data(), result->input_count, Output(i).data(), result->count, options_.tensors};
    if (options_.collective == OpKind::kSend) {
      auto send = StartSend(*session_, options_.reduction, buffers);
      if (!send.ok()) return send.status();
      sends.push_back(std::move(send.value()));
    }
    auto work = StartCollective(*session_, options_.collective, options_.reduction, buffers,
                                {.algorithm = options_.algorithm,
                                 .priority = options_.priority,
                                 .quorum = options_.quorum,
                                 .late = options_.late,
                                 .grace = options_.grace,
                                 .error_feedback = FeedbackName(*result, i)});
    if (!work.ok()) return work.status();
    works.push_back(std::move(work.value()));
  }
  for (Work& work : works) {
    auto outcome = work.Wait(options_.timeout);
    if (!outcome.ok()) return outcome.status();
    outcomes.push_back(std::move(outcome.value()));
  }
  for (Work& send : sends) {
    auto outcome = send.Wait(options_.timeout);
    if (!outcome.ok()) return outcome.status();
    totals->wire_bytes += outcome->wire_bytes;
  }
  const double time_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  for (const OpResult& outcome : outcomes) {
    totals->wire_bytes += outcome.wire_bytes;
    ++totals->operations;
    result->retries += outcome.retries;
    totals->inputs += outcome.world_size;
    totals->late += outcome.absent.size();
    result->world_size = outcome.world_size;
    result->algorithm = outcome.algorithm;
  }
  if (options_.check) {
    if (Status error = CheckOutputs(outcomes, result); !error.ok()) return error;
  }
  return time_ms;
}

Status Runner::FillInputs(const SizeResult& result) {
  for (std::uint32_t i = 0; i < options_.in_flight; ++i) {
    const InputName name{session_->peer_id(), iteration_ * options_.in_flight + i};
    const bool is_root = session_->rank() == kRoot;
    const std::size_t count = SizesOf(options_.collective, result.input_count, session_->world_size(), is_root).input;
    FillInput(options_.reduction, name, inputs_[i].host(), count);
    const std::size_t bytes = count * SizeOf(options_.reduction.dtype);
    if (Status error = inputs_[i].Push(bytes); !error.ok()) return error;
  }
  return {};
}

Status Runner::CheckOutputs(const std::vector<OpResult>& outcomes, SizeResult* result) {
  for (std::uint32_t i = 0; i < options_.in_flight; ++i) {
    if (Status error = Output(i).Pull(result->bytes); !error.ok()) return error;
    result->wrong += CountWrong(options_.reduction, outcomes[i].contributors, iteration_ * options_.in_flight + i,
                                {options_.collective, Output(i).host(), result->input_count, outcomes[i].part,
                                 outcomes[i].rank, outcomes[i].absent.size()});
  }
  return {};
}

}  // namespace ringway::bench
