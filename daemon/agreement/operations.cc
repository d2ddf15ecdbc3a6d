#include "daemon/agreement/operations.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "daemon/agreement/messages.h"
#include "daemon/agreement/op_shapes.h"
#include "daemon/agreement/partners.h"
#include "proto/check.h"
#include "proto/collective/schedule.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

std::string Cancelled(const Operation& op) { return "operation " + ToString(op.name) + " is cancelled"; }

}  // namespace

// ---------------------------------------------------------------------------------------------- trainer

Status Operations::Submit(Submission submission) {
  if (!membership_.leaves_at_once().ok()) return membership_.leaves_at_once();
  if (membership_.leaving() || ctx_.views.ended())
    return {Code::kShuttingDown, "this peer is leaving its group and takes no new operations"};
  const bool update = submission.descriptor.kind == OpKind::kUpdateView;
  if (table_.update_is_open())
    return {Code::kInvalidArgument, "UpdateView is running: wait for it before submitting more"};
  if (update && table_.pending() > 0)
    return {Code::kInvalidArgument, "UpdateView needs all earlier operations of this session to be done"};
  if (table_.IsTooFarBeyond(submission.channel())) {
    return {Code::kResourceExhausted, "an operation of channel " + std::to_string(submission.channel().value) +
                                          " is unfinished since " + std::to_string(OpTable::kBeyondMax) +
                                          " others: wait for it, or cancel it"};
  }
  Operation* const late = table_.FindUnsubmitted(submission.channel());
  const std::uint32_t world_size = ctx_.view().world_size();
  const auto trainers = submission.buffers;
  Status fits = late != nullptr ? agreed_.CheckCatchUp(*late, submission) : RoomFor(submission, ctx_.self, world_size);
  if (!fits.ok()) return fits;
  const auto begun = residuals_.Begin(submission.spec.feedback, submission.descriptor, trainers, ctx_.options.memory);
  if (!begun.ok()) return begun.status();
  const auto& feedback = begun.value();
  if (late != nullptr) {
    agreed_.CatchUp(*late, std::move(submission), feedback);
    SetDeadline(*late);
    Settle(*late);
    return Status::Ok();
  }
  if (feedback != nullptr) submission.buffers = feedback;
  Operation& op = table_.Add(std::move(submission));
  op.feedback = feedback;
  op.trainers = trainers;
  op.shape = FirstShape(op.submission, ctx_.self, world_size);
  op.waiting.since = op.waiting.staged_at = ctx_.now;
  SetDeadline(op);
  ctx_.Moved();
  if (ctx_.views.running()) Start(op);
  return Status::Ok();
}

void Operations::SetDeadline(Operation& op) {
  if (op.submission.time_limit > Duration::zero()) table_.SetDeadline(op, ctx_.now + op.submission.time_limit);
}

bool Operations::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  Operation* op = table_.FindToken(token);
  if (op == nullptr || !op->attempt.buffers->Grow(input_bytes_ready)) return false;
  op->waiting.staged_at = ctx_.now;
  ctx_.Moved();
  if (op->stage == Stage::kQueued && ctx_.views.running()) (void)agreed_.MayStart(*op);
  StartWork(*op);
  return true;
}

void Operations::Cancel(std::uint64_t token) {
  Operation* op = table_.FindToken(token);
  if (op == nullptr || ctx_.views.ended()) return;
  op->obstacles.cancel = true;
  if (op->has_outcome()) {
    work_.Add(op->name);  // which may have waited for its input alone
  } else if (ctx_.views.running()) {
    membership_.RequestRecovery(Cancelled(*op));
  } else if (ctx_.views.installed()) {
    membership_.SendReport(Cancelled(*op));
  }
}

void Operations::SetDeadline(std::uint64_t token, Duration after) {
  if (Operation* op = table_.FindToken(token)) table_.SetDeadline(*op, ctx_.now + after);
}

// ---------------------------------------------------------------------------------------------- attempts

bool Operations::StartAll() {
  std::vector<OpName> names;
  for (const auto& [name, op] : table_.ops()) names.push_back(name);
  for (const OpName& name : names) {
    if (!ctx_.views.running()) return false;
    Operation* op = table_.Find(name);
    if (op == nullptr) continue;
    op->has_outcome() ? Settle(*op) : Start(*op);
  }
  return ctx_.views.running();
}

void Operations::Start(Operation& op) {
  if (op.fetching) return StartFetch(op);
  if (const auto verdict = unsubmitted_.TakeVerdict(op.name)) {
    return Fail(op, FailureFromWire(verdict->code()), verdict->text());
  }
  // It was cancelled when the master had decided already, so this view knows nothing of it.
  if (op.obstacles.cancel) return membership_.RequestRecovery(Cancelled(op));
  // The master says so to all: others may have submitted less, or an UpdateView as this one.
  if (!op.is_update() && ctx_.view().world_size() < ctx_.view().min_world) {
    if (RINGWAY_MUTANT(kTooSmallAlone)) return Fail(op, Code::kWorldTooSmall, "decided alone");
    ctx_.RequestRecoveryLater("operation " + ToString(op.name) + " needs more peers");
    return;
  }
  const std::uint32_t world_size = ctx_.view().world_size();
  op.has_part = false;
  op.obstacles.partner_lost = PartnerLost(ctx_, op.submission);
  if (!op.obstacles.partner_lost.empty())
    return ctx_.RequestRecoveryLater("operation " + ToString(op.name) + ": " + op.obstacles.partner_lost);
  FindRoot(ctx_, op);
  op.shape = ShapeIn(op.submission, world_size, *ctx_.view().RankOf(ctx_.self));
  if (const Status room = RoomFor(op.submission, ctx_.self, world_size); !room.ok()) {
    op.obstacles.mismatch = room.text();  // worlds do not grow under an operation, unless the master errs
    return ctx_.RequestRecoveryLater("operation " + ToString(op.name) + ": " + op.obstacles.mismatch);
  }
  // The next sequence numbers lie beyond the operations that failed before this rank submitted them, too.
  if (op.is_update()) op.next_seqs = unsubmitted_.SkipVerdicts(table_.NextSeqs());
  op.attempt.ready_peers.clear();  // not when it stopped: until now it says whom it waited for
  op.algorithm = launcher_.AlgorithmOf(op);
  op.submission.descriptor.schedule = op.algorithm;
  op.error_bound = launcher_.ErrorBoundOf(op.submission.descriptor);
  if (!agreed_.MayStart(op)) {
    for (const auto& [peer, descriptor] : unsubmitted_.ReadiesOf(op.name))
      (void)frames_.CheckDescriptor(op, descriptor, peer);
    return;
  }
  const auto schedule = launcher_.ScheduleOf(op.submission);
  op.receivers.clear();
  if (!HearsFromAll(op.submission.descriptor.kind) && !RINGWAY_MUTANT(kNeedNobodyReady)) {
    for (const collective::Departure& departure : schedule->departures)
      op.receivers.insert(ctx_.view().members[departure.to.value]);
  }
  launcher_.Launch(op, schedule);
  op.ready_due = ctx_.now + ctx_.view().plan.detect;
  if (!frames_.CheckRound(op) && !op.is_small(ctx_.view().plan)) words_.SendReady(op);
  for (const auto& [peer, descriptor] : unsubmitted_.TakeReadies(op.name)) OnReady(peer, op.name, descriptor);
  for (const PeerId peer : unsubmitted_.TakeDones(op.name)) table_.AddHolder(op, peer);
  if (RINGWAY_MUTANT(kDoneTooEarly)) words_.SendDone(op.name);
  StartWork(op);
}

// Committed without this rank: the bytes come from the lowest holder.
void Operations::StartFetch(Operation& op) {
  const auto world_size = static_cast<std::uint32_t>(op.outcome.contributors.size());
  op.shape = ShapeIn(op.submission, world_size, Rank());
  op.shape.input = {};
  const auto& layout = op.submission.layout;
  const bool same_world = layout == nullptr || layout->counts.size() == world_size;
  if (!op.shape.shared || !same_world || !RoomFor(op.submission, ctx_.self, world_size).ok()) {  // the master errs
    return membership_.End(Code::kProtocol, "operation " + ToString(op.name) + " is committed, and cannot be fetched");
  }
  if (op.output_bytes() == 0) {
    op.stage = Stage::kRunning;
    return OnComputed(op);
  }
  const auto holder = std::find_if(ctx_.view().members.begin(), ctx_.view().members.end(), [&](PeerId peer) {
    return peer != ctx_.self && (op.holders.contains(peer) || RINGWAY_MUTANT(kFetchFromAnybody));
  });
  if (holder == ctx_.view().members.end())
    return membership_.RequestRecovery("operation " + ToString(op.name) + " is committed and nobody holds it");
  op.submission.descriptor.schedule = kFetchedAs;
  const Rank self = *ctx_.view().RankOf(ctx_.self);
  launcher_.Launch(
      op, collective::Share(collective::FetchSchedule(*ctx_.view().RankOf(*holder), self, self, op.fetched_parts())));
  ctx_.AddNote("fetch",
               {{"epoch", ToString(ctx_.view().epoch)}, {"op", ToString(op.name)}, {"from", ctx_.NameOf(*holder)}});
  links_.Send(*holder, FetchMessage(ctx_.view().epoch, op.name));
}

void Operations::MarkComplete(const Operation& op) {
  table_.MarkComplete(op.name);
  if (!op.submitted && table_.update_is_open()) table_.MarkUpdateDue();
  Operation* const next = table_.NextOf(op.name.channel);
  if (next == nullptr) return;
  next->attempt.goes_at_once = launcher_.GoesAtOnce(*next);
  transfer_.queue.Unblock(next->attempt);
}

// ---------------------------------------------------------------------------------------------- outcomes

void Operations::OnComputed(Operation& op) {
  RINGWAY_CHECK(op.stage == Stage::kRunning && ctx_.views.running());
  if (op.is_update()) {
    if (table_.AnyUnsubmittedOpen()) return;  // this view ends with it: SettleDue goes on when they are done
    table_.RaiseBeyondUnsubmitted(op.next_seqs);
  }
  RINGWAY_REACHED_IF(op.fetching, kFetchResult);
  if (op.attempt.live() && !op.attempt.executor().finite()) op.error_bound = std::numeric_limits<double>::infinity();
  if (!op.fetching) {
    const Stamp stamp = op.attempt.executor().stamp();
    // The ranks' stamps may differ unless this rank has heard from all.
    const bool heard_all = HearsFromAll(op.submission.descriptor.kind) || RINGWAY_MUTANT(kStampOfTheRoot);
    op.outcome = {Code::kOk, "", ctx_.view().epoch, ctx_.view().members, heard_all ? stamp.prepared : Epoch()};
    if (op.inputs.set != nullptr) {
      op.outcome.absent = op.inputs.set->absent;
      op.outcome.weight = op.inputs.set->Total(ctx_.view().world_size());
    }
    for (const PeerId member : ctx_.view().members) {
      if (!heard_all) break;
      table_.Acknowledge(member, op.name.channel, stamp.acknowledged);
      transfer_.queue.MarkReady(op.attempt, member);  // its contribution is in
    }
  }
  op.fetching = false;
  op.has_part = !op.shape.shared;
  table_.AddHolder(op, ctx_.self);
  frames_.Forget(op);
  if (!op.has_part || RINGWAY_MUTANT(kPartIsAll)) MarkDurable(op);
  if (!op.is_retained() || !op.is_small(ctx_.view().plan))
    words_.SendDone(op.name);  // copies are not kept for long, and somebody may have no room
  Settle(op);
}

void Operations::MarkDurable(Operation& op) {
  op.has_part = false;
  op.stage = Stage::kComplete;
  MarkComplete(op);
}

// Reported when every member holds it; at once where a copy stays here.
void Operations::Settle(Operation& op) {
  if (!ctx_.views.running() || !op.submitted) return;
  if (op.has_part && table_.AllHold(op, ctx_.view())) MarkDurable(op);
  if (op.stage != Stage::kComplete && op.stage != Stage::kDelivering) return;
  const bool early =
      RINGWAY_MUTANT(kSkipDone) || (RINGWAY_MUTANT(kReportLargeByVerdict) && op.outcome.epoch < ctx_.view().epoch);
  if (op.outcome.code == Code::kOk && !op.is_retained() && !table_.AllHold(op, ctx_.view()) && !early) return;
  op.stage = Stage::kDelivering;
  StartWork(op);
}

void Operations::Report(Operation& op) {
  if (!op.submitted) return;  // its trainer gets the outcome when it submits it
  RINGWAY_CHECK(!op.is_reported());
  op.stage = Stage::kReported;
  op.attempt.returned = true;
  table_.OnReported(op);
  table_.MarkDue(op.name);
  const bool ok = op.outcome.code == Code::kOk;
  const bool is_in = ok && !op.outcome.Lacks(ctx_.self);
  ctx_.counts.inputs_late += ok && !is_in;
  if (op.feedback != nullptr) residuals_.End(op.submission.spec.feedback, *op.feedback, is_in);
  ++(ok ? ctx_.counts.ops_done : ctx_.counts.ops_failed);
  ctx_.Moved();
  if (ok) ctx_.watchdog.Reset(op.output_bytes());
  Complete complete = CompleteOf(op);
  complete.outcome.behind = table_.BehindOn(op.name.channel);
  complete.outcome.input_kept = ok && !is_in && op.feedback != nullptr && op.feedback->is_kept() ? 1 : 0;
  if (op.is_update()) {
    if (const control::View* const adopted = Adopt(op)) {
      SetAdopted(*adopted, complete);
      const Epoch epoch(adopted->epoch());
      if (epoch > ctx_.view().epoch) membership_.InstallPrepared(epoch);
    }
    membership_.OnUpdateOver();
  }
  const auto place = std::find(complete.contributors.begin(), complete.contributors.end(), ctx_.self);
  complete.outcome.rank = static_cast<std::uint32_t>(place - complete.contributors.begin());
  ctx_.Emit(std::move(complete));
}

// All have submitted it, so each knows what the others submitted before: from here on the channels are in step.
const control::View* Operations::Adopt(const Operation& op) {
  if (op.outcome.code != Code::kOk) return nullptr;
  if (!RINGWAY_MUTANT(kStayOutOfStep)) {
    table_.SkipTo(op.next_seqs);
    unsubmitted_.ForgetVerdictsBelow(table_.NextSeqs());
  }
  const Epoch epoch = RINGWAY_MUTANT(kUpdateAlone) ? membership_.NewestPrepared() : op.outcome.prepared;
  const control::View* const adopted = membership_.FindPrepared(epoch);
  if (adopted == nullptr || epoch <= op.outcome.epoch) return nullptr;
  if (!RINGWAY_MUTANT(kReportOldUpdate) || epoch > ctx_.view().epoch) last_update_ = ReportOf(op, ctx_.view().epoch);
  return adopted;
}

void Operations::Fail(Operation& op, Code code, const std::string& text) {
  launcher_.Stop(op);
  launcher_.Unretain(op);  // nobody will ask for it, and others may submit theirs late
  op.fetching = op.has_part = false;
  op.outcome = {code, text, ctx_.view().epoch, ctx_.view().members, {}};  // with whom the trainer may go on
  op.stage = Stage::kComplete;
  table_.AddHolder(op, ctx_.self);
  MarkComplete(op);
  ctx_.AddNote("operation_failed",
               {{"epoch", ToString(ctx_.view().epoch)},
                {"op", ToString(op.name)},
                {"code", ringway::NameOf(code)},
                {"text", text}},
               Severity::kWarning);
  Report(op);
}

void Operations::AdoptVerdict(Operation& op, const control::Verdict& verdict) {
  const Code code = CodeFromWire(verdict.code());
  if (op.has_outcome()) {
    for (const std::uint64_t holder : verdict.holders()) table_.AddHolder(op, PeerId(holder));
    const bool same =
        op.outcome.code == code && (code != Code::kOk || op.outcome.epoch == Epoch(verdict.result_epoch()));
    if (!same) {  // the master errs
      ctx_.AddNote("contradiction", {{"op", ToString(op.name)}, {"text", "the verdict differs from the outcome here"}},
                   Severity::kError);
      if (op.is_reported() && code != Code::kInternal) {
        return membership_.End(Code::kProtocol, "the master's verdict on operation " + ToString(op.name) +
                                                    " contradicts what was reported to its trainer");
      }
    }
    if (RINGWAY_MUTANT(kDropAfterVerdict) && op.is_reported()) launcher_.Unretain(op);
    return;  // StartAll settles it
  }
  if (code != Code::kOk) return Fail(op, code, verdict.text());
  const std::set<std::uint64_t> contributors(verdict.contributors().begin(), verdict.contributors().end());
  const auto named = static_cast<std::size_t>(verdict.contributors_size());
  if (named == 0 || named > abi::kWorldSizeMax || contributors.size() != named) {  // the master errs
    return membership_.End(Code::kProtocol, "the master commits operation " + ToString(op.name) + " for nobody");
  }
  if (op.has_part && op.outcome.epoch == Epoch(verdict.result_epoch())) {
    for (const PeerId peer : op.outcome.contributors) table_.AddHolder(op, peer);  // each of its own part
    return MarkDurable(op);
  }
  op.fetching = true;
  op.outcome = {Code::kOk, "", Epoch(verdict.result_epoch()), {}, Epoch(verdict.prepared_epoch())};
  op.outcome.absent = verdict.absent();
  op.outcome.weight = verdict.weight();
  for (const std::uint64_t peer : verdict.contributors()) op.outcome.contributors.emplace_back(peer);
  for (const std::uint64_t peer : verdict.holders()) op.holders.insert(PeerId(peer));
}

// Everybody holds its outcome.
void Operations::Retire(const Operation& op) {
  work_.Forget(op.name);
  frames_.Forget(op);
  transfer_.out.Forget(op.name);
}

// A view that is installed here, by an UpdateView that is reported, makes all due again.
void Operations::SettleDue() {
  for (const OpName& name : agreed_.Decide()) {
    if (Operation* op = table_.Find(name); op != nullptr && ctx_.views.running()) Start(*op);
  }
  while (ctx_.views.running() && table_.has_due()) {
    Operation* op = table_.Find(table_.TakeDue());
    if (op == nullptr) continue;
    const bool is_held_up = op->is_update() && op->stage == Stage::kRunning;
    if (is_held_up && (op->fetching || (op->attempt.live() && op->is_computed()))) OnComputed(*op);
    Settle(*op);
    if (RINGWAY_MUTANT(kForgetLateResults) && !op->submitted && op->has_outcome() && table_.AllHold(*op, ctx_.view()))
      table_.ForgetUnsubmitted(OpName(op->name)), op = nullptr;
    if (op == nullptr || !ctx_.views.running() || !table_.IsFinished(*op, ctx_.view())) continue;
    Retire(*op);
    table_.Forget(op->name);
  }
}

// ---------------------------------------------------------------------------------------------- members

void Operations::OnReady(PeerId from, const OpName& name, const Descriptor& descriptor) {
  Operation* op = table_.Find(name);
  const bool awaits_inputs =
      op != nullptr && op->stage == Stage::kQueued && op->submission.descriptor.agrees_on_inputs();
  if (op != nullptr && !awaits_inputs) {
    transfer_.queue.MarkReady(op->attempt, from);
    const bool agrees = op->attempt.live() && !op->fetching && frames_.CheckDescriptor(*op, descriptor, from);
    if (agrees && op->receivers.contains(from)) StartWork(*op);  // which may have waited for that alone
  } else if (CanComeEarly(name)) {
    if (awaits_inputs) (void)frames_.CheckDescriptor(*op, descriptor, from);
    unsubmitted_.AddReady(name, from, descriptor);
  }
}

void Operations::OnInputs(PeerId from, const control::Inputs& inputs) {
  if (Operation* op = agreed_.OnInputs(from, inputs)) Start(*op);
}

// Others may be done with an operation with a root before this rank has submitted it.
void Operations::OnDone(PeerId from, const OpName& name) {
  if (Operation* op = table_.Find(name)) {
    table_.AddHolder(*op, from);
    if (op->done_after == from) StartWork(*op);
  } else if (CanComeEarly(name)) {
    unsubmitted_.AddDone(name, from);
  }
}

bool Operations::CanComeEarly(const OpName& name) const {
  return name.channel.value < abi::kChannelCountMax && !table_.IsFinished(name) && !table_.IsTooFarAhead(name);
}

// ---------------------------------------------------------------------------------------------- frames, work

void Operations::OnPayload(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload) {
  const OpFrames::Taken taken = frames_.Take(frame, payload);
  if (!taken.accepted) {
    if (taken.op != nullptr) StartWork(*taken.op);
  } else if (taken.op->is_computed()) {
    OnComputed(*taken.op);
  }
}

void Operations::StartWork(Operation& op) {
  switch (work_.Do(op)) {
    case OpWork::Done::kNothing:
      break;
    case OpWork::Done::kComputed:
      OnComputed(op);
      break;
    case OpWork::Done::kDelivered:
      Report(op);
      break;
  }
  work_.Keep(op);
}

bool Operations::Work() {
  work_.Refill();
  ctx_.Moved();
  if (!ctx_.views.running()) {
    work_.ForgetAll();  // the next view starts what is open
    return false;
  }
  for (std::size_t i = work_.size(); i > 0 && ctx_.views.running() && work_.has_slice() && work_.size() > 0; --i) {
    const OpName name = work_.Next();
    Operation* op = table_.Find(name);
    op != nullptr ? StartWork(*op) : work_.Forget(name);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- views

void Operations::StopAll() {
  for (auto& [name, op] : table_.ops()) launcher_.Stop(op);
  transfer_.out.StopServing();
}

void Operations::OnView() {
  launcher_.OnView();
  frames_.OnView();
  unsubmitted_.OnView();
  agreed_.OnView();
  table_.MarkAllDue();
}

void Operations::AdoptVerdicts(const control::View& view) {
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    if (!RINGWAY_MUTANT(kKeepOldVerdict))
      op.fetching = false;  // without a verdict it is a retry, whatever an earlier verdict said
    if (op.attempt.number() == 0) continue;
    ++op.retries;
    ++ctx_.counts.ops_retried;
  }
  unsubmitted_.ForgetVerdicts();
  for (const control::Verdict& verdict : view.verdicts()) {
    if (ctx_.views.ended()) return;
    const OpName name{ChannelId(verdict.channel()), verdict.seq()};
    if (verdict.code() != 0 && table_.IsUnsubmittedOpen(name)) table_.ForgetUnsubmitted(name);
    if (Operation* op = table_.Find(name)) {
      AdoptVerdict(*op, verdict);
    } else if (table_.IsFinished(name)) {
      RINGWAY_REACHED(kDoneAgain);
      words_.SendDone(name);  // so that nobody waits for a rank that has forgotten it
    } else if (verdict.code() != 0 && !table_.IsTooFarAhead(name)) {
      unsubmitted_.AddVerdict(name, verdict);
    }
  }
  RINGWAY_REACHED_IF(table_.AnyUnsubmittedOpen(), kForgetUnsubmitted);
  table_.ForgetUnsubmitted();
}

void Operations::OnEnd(Code code, const std::string& text) {
  for (auto& [name, op] : table_.ops()) {
    launcher_.Stop(op);
    if (op.is_reported() || !op.submitted) continue;
    op.outcome = {code, text, ctx_.view().epoch, {}, {}};
    Report(op);
  }
}

}  // namespace ringway::agreement
