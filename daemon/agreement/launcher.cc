#include "daemon/agreement/launcher.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "daemon/buffers/staged_buffers.h"
#include "proto/collective/error_bound.h"
#include "proto/collective/host_schedule.h"
#include "proto/collective/shares.h"
#include "proto/hash.h"
#include "proto/memory_budget.h"
#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

constexpr std::size_t kRetainedMax = 4096;  // operations that a report names, and kilobytes of each

// The seed of stochastic rounding is the same on all ranks and in all attempts. Rounding to nearest needs none.
std::uint64_t SeedOf(const Encoding& codec, const std::string& group, const OpName& name) {
  if (codec.rounding != Rounding::kStochastic) return 0;
  const std::string text = group + '\0' + std::to_string(name.channel.value) + '.' + std::to_string(name.seq);
  return Hash64(std::as_bytes(std::span(text)));
}

}  // namespace

Algorithm Launcher::AlgorithmOf(const Operation& op) const {
  const std::uint64_t bytes = op.buffer_bytes();
  const Descriptor& descriptor = op.submission.descriptor;
  const std::uint64_t wire_bytes = EncodedBytes(descriptor.codec, descriptor.dtype, bytes / SizeOf(descriptor.dtype));
  const Algorithm planned =
      abi::AlgorithmOf(op.submission.spec).value_or(ctx_.view().plan.AlgorithmFor(descriptor.kind, wire_bytes));
  const Algorithm wanted = collective::AlgorithmFor(descriptor.kind, planned);
  const std::uint64_t needed = collective::ReorderBytesMax(wanted, ctx_.view().world_size(), bytes);
  const bool fits = needed <= std::max(kReorderBuffersMax * bytes, MemoryBudget::kReorderBytesMax);
  return fits ? wanted : collective::AlgorithmFor(descriptor.kind, Algorithm::kRing);
}

std::vector<Rank> Launcher::RanksByMemory(const Descriptor& descriptor) const {
  const collective::HostBoard* const board = ctx_.options.board.get();
  const bool may = descriptor.kind == OpKind::kAllReduce && descriptor.codec == Codec::kNone &&
                   !descriptor.has_input_set() && board != nullptr;
  if (!may) return {};
  std::vector<Rank> ranks = board->RanksHere(ctx_.view().members);
  const bool is_site = descriptor.schedule == Algorithm::kHierarchical && collective::IsSite(ctx_.view().routes, ranks);
  if (ranks.size() == 1 || (ranks.size() < ctx_.view().world_size() && !is_site)) ranks.clear();
  return ranks;
}

std::shared_ptr<const collective::Schedule> Launcher::ScheduleOf(const Submission& submission) {
  const std::vector<Rank> ranks = RanksByMemory(submission.descriptor);
  if (!ranks.empty() && ranks.size() == ctx_.view().world_size()) {
    collective::Schedule no_transfers;
    no_transfers.in_process = true;
    return collective::Share(std::move(no_transfers));
  }
  const Descriptor& descriptor = submission.descriptor;
  const auto& [kind, algorithm, root] = std::tie(descriptor.kind, descriptor.schedule, descriptor.root);
  std::shared_ptr<const collective::Schedule>& schedule = schedules_[{kind, algorithm, root}];
  if (schedule == nullptr) {
    const Rank self = *ctx_.view().RankOf(ctx_.self);
    schedule = collective::Share(collective::MakeSchedule(kind, algorithm, ctx_.view().routes, self, Rank(root)));
  }
  if (!ranks.empty()) return collective::Share(collective::WithoutHost(*schedule, ranks));
  if (kind != OpKind::kAllToAllV) return schedule;
  return collective::Share(collective::WithoutEmpty(*schedule, *submission.layout));
}

double Launcher::ErrorBoundOf(const Descriptor& descriptor) {
  if (descriptor.codec == Codec::kNone) return 0;
  const auto [known, is_new] =
      error_bounds_.try_emplace({descriptor.kind, descriptor.schedule, descriptor.op, descriptor.dtype,
                                 descriptor.codec.codec, descriptor.codec.rounding, descriptor.has_input_set()});
  if (is_new) {
    const auto transfers =
        collective::TransfersOf(descriptor.kind, descriptor.schedule, ctx_.view().routes, Rank(descriptor.root));
    known->second = collective::ErrorBound(transfers, descriptor, ctx_.view().world_size());
  }
  return known->second;
}

bool Launcher::GoesAtOnce(const Operation& op) const {
  return table_.IsNext(op.name) && op.is_small(ctx_.view().plan) && !RINGWAY_MUTANT(kWindowStopsAll);
}

void Launcher::Launch(Operation& op, std::shared_ptr<const collective::Schedule> schedule) {
  Retain(op, schedule->everyone_sums);
  op.stage = Stage::kRunning;
  const auto inputs = op.fetching ? nullptr : op.inputs.set;
  const bool is_in = inputs == nullptr || inputs->Has(*ctx_.view().RankOf(ctx_.self));
  const bool notes_loss = op.feedback != nullptr && !op.fetching && is_in;
  if (notes_loss) op.feedback->Restart();
  op.attempt.goes_at_once = GoesAtOnce(op);
  const bool by_memory = schedule->in_process || schedule->sums_host;
  op.attempt.Begin(
      transfer_.attempts, &transfer_.queue.index(),
      {.epoch = ctx_.view().epoch,
       .schedule = std::move(schedule),
       .options =
           {
               .descriptor = op.submission.descriptor,
               .shape = op.shape,
               .layout = op.submission.layout,
               .world_size = op.fetching ? kNotAlone : ctx_.view().world_size(),
               .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
               .inputs = inputs,
               // The stamp freezes what this rank has finished and prepared, for all its contributions to this attempt.
               .stamp = {membership_.NewestPrepared(), table_.CompleteUpto(op.name.channel)},
               .seed = SeedOf(op.submission.descriptor.codec, ctx_.group, op.name),
               .self = *ctx_.view().RankOf(ctx_.self),
               .loss = notes_loss ? op.feedback->loss()->floats() : nullptr,
               .memory = ctx_.options.memory.get(),
           },
       .board = by_memory ? ctx_.options.board.get() : nullptr,
       .round = {.group = ctx_.group, .epoch = ctx_.view().epoch, .op = op.name},
       .ranks = by_memory ? RanksByMemory(op.submission.descriptor) : std::vector<Rank>(),
       .self = ctx_.self});
}

void Launcher::Stop(Operation& op) {
  Seal(op);
  op.attempt.End();
  transfer_.queue.Release(op.attempt);
  if (op.has_outcome()) return;
  op.stage = Stage::kQueued;
  op.holders.clear();
}

void Launcher::Seal(Operation& op) {
  const bool has_result = op.has_outcome() && op.outcome.code == Code::kOk;
  if (has_result && op.attempt.live() && !op.is_retained()) op.attempt.Seal();
}

void Launcher::Serve(Operation& op, PeerId to) {
  Seal(op);
  Descriptor fetched = op.submission.descriptor;
  fetched.schedule = kFetchedAs;
  const Rank self = *ctx_.view().RankOf(ctx_.self);
  const collective::Shape shape{.count = op.shape.count, .input = {}, .output = {0, op.shape.count}};
  transfer_.out.Serve(to, op.attempt,
                      {.epoch = ctx_.view().epoch,
                       .schedule = collective::Share(
                           collective::FetchSchedule(self, *ctx_.view().RankOf(to), self, op.fetched_parts())),
                       .options = {.descriptor = fetched,
                                   .shape = shape,
                                   .layout = op.submission.layout,
                                   .world_size = kNotAlone,
                                   .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
                                   .stamp = {}}});
}

// ---------------------------------------------------------------------------------------------- copies

// The last quarter of the room is for small ones: of those nobody says that they are done.
bool Launcher::IsToBeRetained(const Operation& op) const {
  const std::uint64_t room =
      op.is_small(ctx_.view().plan) ? ctx_.options.retained_bytes_max : ctx_.options.retained_bytes_max / 4 * 3;
  if (table_.ops().size() > kRetainedMax) return false;  // each takes more than its bytes
  return !op.is_update() && op.shape.shared && op.output_bytes() <= ctx_.view().plan.retained_bytes_max &&
         table_.retained_bytes() + op.output_bytes() <= room;
}

// Where the daemon has no room for the copies, the operation waits until all hold its result. They are too small where
// a master that errs lets a world grow.
void Launcher::Retain(Operation& op, bool with_input) {
  if (RINGWAY_MUTANT(kSendTrainersInput)) with_input = false;
  if (op.attempt.buffers == op.submission.buffers && op.is_retained()) return;  // it went on without its trainer
  const bool has_input = !with_input || !op.attempt.buffers->trainer_writes_input();
  if (op.is_retained() && has_input && op.retained_bytes() >= op.output_bytes()) return;
  Unretain(op);
  if (!IsToBeRetained(op)) return;
  auto staged = buffers::StagedBuffers::Make(
      op.submission.buffers,
      {.output_bytes = op.output_bytes(),
       .input_bytes = with_input && op.submission.buffers->trainer_writes_input() ? op.input_bytes() : 0},
      ctx_.options.memory);
  if (staged == nullptr) return;
  op.attempt.buffers = std::move(staged);
  table_.Retain(op.retained_bytes());
}

void Launcher::Unretain(Operation& op) {
  table_.Unretain(op.retained_bytes());
  op.attempt.buffers = op.submission.buffers;
}

}  // namespace ringway::agreement
