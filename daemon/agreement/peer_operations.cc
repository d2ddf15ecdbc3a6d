#include <algorithm>
#include <cstring>

#include "daemon/agreement/peer_impl.h"
#include "proto/check.h"
#include "proto/collective/shares.h"
#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kAsideBytesMax = 256 << 20;

using collective::Executor;

// Memory that lives as long as a frame uses it.
struct OpMemory {
  Keep regions;
  std::shared_ptr<std::byte[]> own_output;
  std::shared_ptr<std::vector<std::byte>> own_input;
};

}  // namespace

// ---------------------------------------------------------------------------------------------- trainer

Status Peer::Impl::Submit(Submission submission, TimePoint now) {
  ctx_.now = now;
  if (!membership_.modified().empty()) return {Code::kBufferModified, membership_.modified()};
  if (membership_.leaving() || ctx_.views.ended())
    return {Code::kShuttingDown, "this peer is leaving its group and takes no new operations"};
  const bool update = submission.descriptor.kind == OpKind::kUpdateView;
  if (update_open_) return {Code::kInvalidArgument, "UpdateView is running: wait for it before submitting more"};
  if (update && table_.untold() > 0)
    return {Code::kInvalidArgument, "UpdateView needs all earlier operations of this session to be done"};
  Operation& op = table_.Add(std::move(submission));
  op.since = op.staged_at = now;
  op_watch_.Moved();
  op_watch_.WatchBy(op.submission.deadline);
  if (update) update_open_ = true;
  if (ctx_.views.running()) Start(op);
  AfterProgress();
  return Status::Ok();
}

void Peer::Impl::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  Operation* op = table_.FindToken(token);
  if (op == nullptr || input_bytes_ready <= op->submission.input_bytes_ready) return;
  op->submission.input_bytes_ready = std::min(input_bytes_ready, op->bytes());
  op->staged_at = ctx_.now;
  op_watch_.Moved();
  StartWork(*op);
  AfterProgress();
}

void Peer::Impl::Cancel(std::uint64_t token, TimePoint now) {
  ctx_.now = now;
  Operation* op = table_.FindToken(token);
  if (op == nullptr || op->has_outcome() || ctx_.views.ended()) return;
  op->cancel = true;
  if (ctx_.views.running()) {
    membership_.Trouble("operation " + ToString(op->name) + " is cancelled");
  } else if (ctx_.views.installed()) {
    membership_.SendReport("operation " + ToString(op->name) + " is cancelled");
  }
}

// ---------------------------------------------------------------------------------------------- attempts

// The last quarter of the room is for small ones: of those nobody says that they are done.
bool Peer::Impl::IsToBeRetained(const Operation& op) const {
  const std::uint64_t room =
      op.is_small(ctx_.view().plan) ? ctx_.options.retained_bytes_max : ctx_.options.retained_bytes_max / 4 * 3;
  return !op.is_update() && op.bytes() <= ctx_.view().plan.retained_bytes_max &&
         table_.retained_bytes() + op.bytes() <= room;
}

void Peer::Impl::StartAll() {
  std::vector<OpName> names;
  for (const auto& [name, op] : table_.ops()) names.push_back(name);
  for (const OpName& name : names) {
    if (!ctx_.views.running()) return;
    Operation* op = table_.Find(name);
    if (op == nullptr) continue;
    if (op->has_outcome()) {
      Settle(*op);
    } else {
      Start(*op);
    }
  }
  AfterProgress();
}

void Peer::Impl::Start(Operation& op) {
  if (op.fetching) return StartFetch(op);
  if (const auto ahead = ahead_.find(op.name); ahead != ahead_.end()) {
    Fail(op, FailureFromWire(ahead->second.code()), ahead->second.text());
    ahead_.erase(ahead);
    return;
  }
  // The master says so to all: others may have submitted less, or an UpdateView as this one.
  if (!op.is_update() && ctx_.view().world_size() < ctx_.view().min_world) {
    if (RINGWAY_MUTANT(kTooSmallAlone)) return Fail(op, Code::kWorldTooSmall, "decided alone");
    membership_.TroubleLater("operation " + ToString(op.name) + " needs more peers");
    return;
  }
  if (op.is_update()) op.next_seqs = AgreedSeqs();
  op.ready.clear();  // not when it stopped: until now it tells whom it waited for
  op.algorithm = AlgorithmOf(op);
  op.submission.descriptor.schedule = op.algorithm;
  Launch(op, ScheduleOf(op.algorithm));
  if (const auto early = early_ready_.extract(op.name); !early.empty()) {
    for (const auto& [peer, descriptor] : early.mapped()) OnReady(peer, op.name, descriptor);
  }
  if (!op.is_small(ctx_.view().plan)) SendReady(op);
  if (RINGWAY_MUTANT(kDoneTooEarly)) SendDone(op.name);
  StartWork(op);
}

// The same on every rank. Where it would need too much memory, a ring does.
Algorithm Peer::Impl::AlgorithmOf(const Operation& op) const {
  const Algorithm wanted = op.submission.algorithm.value_or(ctx_.view().plan.AlgorithmFor(op.bytes()));
  const std::uint64_t aside = collective::AsideBytesMax(wanted, ctx_.view().world_size(), op.bytes());
  return aside <= std::max(kAsideBuffersMax * op.bytes(), kAsideBytesMax) ? wanted : Algorithm::kRing;
}

// Made once a view: of many ranks it takes longer than a small operation.
const collective::Schedule& Peer::Impl::ScheduleOf(Algorithm algorithm) {
  const auto found = schedules_.find(algorithm);
  if (found != schedules_.end()) return found->second;
  return schedules_
      .emplace(algorithm, collective::MakeSchedule(algorithm, ctx_.view().routes, *ctx_.view().RankOf(ctx_.self)))
      .first->second;
}

void Peer::Impl::Launch(Operation& op, collective::Schedule schedule) {
  Retain(op, schedule.everyone_sums);
  op.stage = Stage::kRunning;
  op.attempt = attempts_.Begin();
  op.memory = std::make_shared<OpMemory>(OpMemory{op.submission.keep, op.own_output, op.own_input});
  // What this rank has finished and prepared is frozen here, for all its contributions to this attempt.
  const Stamp stamp{membership_.NewestPrepared(), table_.CompleteUpto(op.name.channel)};
  op.executor.reset();
  op.reporter = std::make_unique<ReadyReporter>(queue_.mutable_index(), op.name);
  op.executor = std::make_unique<Executor>(std::move(schedule),
                                           collective::ExecutorOptions{
                                               .descriptor = op.submission.descriptor,
                                               .world_size = op.fetching ? kNotAlone : ctx_.view().world_size(),
                                               .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
                                               .input = op.own_input ? op.own_input->data() : op.submission.input,
                                               .output = op.output(),
                                               .input_bytes_ready = op.fetching ? op.bytes() : op.input_bytes_ready(),
                                               .trainers_output = !op.own_output,
                                               .stamp = stamp,
                                               .memory = ctx_.options.memory.get(),
                                               .sink = op.reporter.get(),
                                           });
}

// Committed without this rank: the bytes come from the lowest holder.
void Peer::Impl::StartFetch(Operation& op) {
  if (op.bytes() == 0) {
    op.stage = Stage::kRunning;
    return OnComputed(op);
  }
  const auto holder = std::find_if(ctx_.view().members.begin(), ctx_.view().members.end(), [&](PeerId peer) {
    return peer != ctx_.self && (op.holders.contains(peer) || RINGWAY_MUTANT(kFetchFromAnybody));
  });
  if (holder == ctx_.view().members.end())
    return membership_.Trouble("operation " + ToString(op.name) + " is committed and nobody holds it");
  op.submission.descriptor.schedule = kFetchedAs;
  Launch(op, collective::FetchSchedule(*ctx_.view().RankOf(*holder), *ctx_.view().RankOf(ctx_.self),
                                       *ctx_.view().RankOf(ctx_.self)));
  ctx_.AddNote("fetch", "epoch=" + ToString(ctx_.view().epoch) + " op=" + ToString(op.name) +
                            " from=" + Word(ctx_.NameOf(*holder)));
  control::PeerMessage message;
  message.mutable_fetch()->set_epoch(ctx_.view().epoch.value);
  message.mutable_fetch()->set_channel(op.name.channel.value);
  message.mutable_fetch()->set_seq(op.name.seq);
  links_.Send(*holder, std::move(message));
}

void Peer::Impl::Stop(Operation& op) {
  attempts_.End(op.attempt);
  BufferGuard::Seal(op);
  op.executor.reset();
  queue_.Release(op);
  if (op.has_outcome()) return;
  op.stage = Stage::kQueued;
  op.holders.clear();
}

void Peer::Impl::MarkComplete(const Operation& op) {
  table_.MarkComplete(op.name);
  queue_.OnComplete(op);
}

// ---------------------------------------------------------------------------------------------- outcomes

void Peer::Impl::OnComputed(Operation& op) {
  RINGWAY_CHECK(op.stage == Stage::kRunning && ctx_.views.running());
  if (!op.fetching) {
    const Stamp stamp = op.executor->stamp();
    op.outcome = {Code::kOk, "", ctx_.view().epoch, ctx_.view().members, stamp.prepared};
    for (const PeerId member : ctx_.view().members) {
      table_.Acknowledge(member, op.name.channel, stamp.acknowledged);
      queue_.MarkReady(op, member);  // its contribution is in
    }
  }
  op.fetching = false;
  op.stage = Stage::kComplete;
  table_.AddHolder(op, ctx_.self);
  MarkComplete(op);
  frames_in_.Forget(op);
  if (!op.own_output || !op.is_small(ctx_.view().plan))
    SendDone(op.name);  // copies are not kept for long, and somebody may have no room
  Settle(op);
}

// Told when every member holds it; at once where a copy stays here.
void Peer::Impl::Settle(Operation& op) {
  if (op.stage != Stage::kComplete || !ctx_.views.running()) return;
  const bool early =
      RINGWAY_MUTANT(kSkipDone) || (RINGWAY_MUTANT(kTellLargeByVerdict) && op.outcome.epoch < ctx_.view().epoch);
  if (op.outcome.code != Code::kOk || op.own_output || table_.AllHold(op, ctx_.view()) || early) {
    op.telling = true;
    StartWork(op);
  }
}

void Peer::Impl::Tell(Operation& op) {
  RINGWAY_CHECK(!op.told);
  op.stage = Stage::kReported;
  op.told = true;
  op.telling = false;
  table_.OnTold(op);
  table_.MarkDue(op.name);
  const bool ok = op.outcome.code == Code::kOk;
  ++(ok ? ctx_.counts.ops_done : ctx_.counts.ops_failed);
  op_watch_.Moved();
  if (ok) op_watch_.OnSuccess(op.bytes());
  Complete complete;
  complete.epoch = op.outcome.epoch;
  complete.contributors = op.outcome.contributors;
  if (op.is_update()) {
    update_open_ = false;
    // All have submitted it, so each knows what the others submitted before: from here on the channels are in step.
    if (ok && !RINGWAY_MUTANT(kStayOutOfStep)) {
      table_.SkipTo(op.next_seqs);
      std::erase_if(ahead_,
                    [this](const auto& entry) { return entry.first.seq < table_.NextSeq(entry.first.channel); });
    }
    const Epoch epoch = RINGWAY_MUTANT(kUpdateAlone) ? membership_.NewestPrepared() : op.outcome.prepared;
    const control::View* adopted = membership_.FindPrepared(epoch);
    if (ok && adopted != nullptr && epoch > op.outcome.epoch) {
      // Every rank names the adopted view, also one that lives in a later view when it learns of it.
      complete.epoch = epoch;
      complete.contributors.clear();
      for (const auto& info : adopted->members()) complete.contributors.emplace_back(info.peer_id());
      if (!RINGWAY_MUTANT(kReportOldUpdate) || epoch > ctx_.view().epoch) last_update_ = ReportOf(op);
      if (epoch > ctx_.view().epoch) membership_.InstallPrepared(epoch);
    }
    membership_.OnUpdateOver();
  }
  complete.token = op.submission.token;
  complete.code = op.outcome.code;
  complete.text = op.outcome.text;
  complete.op = op.name;
  const auto place = std::find(complete.contributors.begin(), complete.contributors.end(), ctx_.self);
  complete.rank = static_cast<std::uint32_t>(place - complete.contributors.begin());
  complete.wire_bytes = op.wire_bytes;
  complete.retries = op.retries;
  complete.algorithm = op.algorithm;
  complete.bytes = op.bytes();
  complete.codec = op.submission.descriptor.codec;
  complete.submitted = op.since;
  // Of the agreed outcome alone: a rank that is told in a later view says the same.
  complete.update_waits = ok && !op.is_update() && op.outcome.prepared > op.outcome.epoch;
  ctx_.Emit(std::move(complete));
}

void Peer::Impl::Fail(Operation& op, Code code, const std::string& text) {
  Stop(op);
  Unretain(op);  // nobody will ask for it, and others may submit theirs late
  op.memory.reset();
  op.fetching = false;
  op.outcome = {code, text, ctx_.view().epoch, {}, {}};
  op.stage = Stage::kComplete;
  table_.AddHolder(op, ctx_.self);
  MarkComplete(op);
  ctx_.AddNote("operation_failed",
               "epoch=" + ToString(ctx_.view().epoch) + " op=" + ToString(op.name) + " code=" + ringway::NameOf(code) +
                   " text=" + text,
               Severity::kWarning);
  Tell(op);
}

ChannelSeqs Peer::Impl::AgreedSeqs() const {
  ChannelSeqs next = table_.NextSeqs();
  for (const auto& [name, verdict] : ahead_) next[name.channel] = std::max(next[name.channel], name.seq + 1);
  return next;
}

void Peer::Impl::AdoptVerdict(Operation& op, const control::Verdict& verdict) {
  const Code code = CodeFromWire(verdict.code());
  if (op.has_outcome()) {
    for (const std::uint64_t holder : verdict.holders()) table_.AddHolder(op, PeerId(holder));
    const bool same =
        op.outcome.code == code && (code != Code::kOk || op.outcome.epoch == Epoch(verdict.result_epoch()));
    if (!same)
      ctx_.AddNote("contradiction", "op=" + ToString(op.name) + " verdict differs from the outcome here",
                   Severity::kError);
    RINGWAY_CHECK(same || op.told == false || code == Code::kInternal);
    if (RINGWAY_MUTANT(kDropAfterVerdict) && op.told) op.own_output.reset();
    return;  // StartAll settles it
  }
  if (code != Code::kOk) return Fail(op, code, verdict.text());
  op.fetching = true;
  op.outcome = {Code::kOk, "", Epoch(verdict.result_epoch()), {}, Epoch(verdict.prepared_epoch())};
  for (const std::uint64_t peer : verdict.contributors()) op.outcome.contributors.emplace_back(peer);
  for (const std::uint64_t peer : verdict.holders()) op.holders.insert(PeerId(peer));
}

control::OpReport Peer::Impl::ReportOf(const Operation& op) const {
  control::OpReport report;
  report.set_channel(op.name.channel.value);
  report.set_seq(op.name.seq);
  report.set_update_view(op.is_update());
  if (op.is_update()) SeqsTo(op.next_seqs, *report.mutable_next_seq());
  const bool possessed = op.has_outcome() || (RINGWAY_MUTANT(kPossessByVerdict) && op.fetching);
  report.set_stage(op.stage == Stage::kReported ? control::OP_STAGE_REPORTED
                   : possessed                  ? control::OP_STAGE_COMPLETE
                                                : control::OP_STAGE_RUNNING);
  if (!possessed) {
    report.set_cancel(op.cancel);
    report.set_mismatch(op.mismatch);
    report.set_overdue(op.overdue);
    if (op.hung_in != ctx_.view().epoch) return report;
    for (const PeerId peer : op.hung_for) report.add_hung_for(peer.value);
    return report;
  }
  report.set_code(static_cast<std::uint32_t>(op.outcome.code));
  report.set_text(op.outcome.text);
  report.set_result_epoch(op.outcome.epoch.value);
  for (const PeerId peer : op.outcome.contributors) report.add_contributors(peer.value);
  report.set_prepared_epoch(op.outcome.prepared.value);
  return report;
}

// Everybody holds its outcome.
void Peer::Impl::Retire(const Operation& op) {
  attempts_.End(op.attempt);
  work_.erase(op.name);
  frames_in_.Forget(op);
  if (ctx_.options.memory != nullptr) ctx_.options.memory->Give(MemoryUse::kResults, op.retained_bytes);
  frames_out_.Forget(op.name);
}

// A view that is installed here, by an UpdateView that is told, makes all due again.
void Peer::Impl::SettleDue() {
  while (ctx_.views.running() && table_.has_due()) {
    Operation* op = table_.Find(table_.TakeDue());
    if (op == nullptr) continue;
    Settle(*op);
    if (!ctx_.views.running() || !table_.IsFinished(*op, ctx_.view())) continue;
    Retire(*op);
    table_.Forget(op->name);
  }
}

void Peer::Impl::AfterProgress() {
  if (ctx_.views.running()) {
    for (const auto& [from, messages] : early_messages_.Take()) {
      for (const control::PeerMessage& message : messages) Handle(from, message);
    }
  }
  membership_.ActOnTrouble();
  SettleDue();
  if (membership_.leaving()) membership_.TryLeave();
}

}  // namespace ringway::agreement
