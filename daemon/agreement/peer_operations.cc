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

// As far as all ranks have it alike; outside a view, where a member waits for its first one, that in the smallest
// world.
collective::Shape ShapeIn(std::uint32_t world_size, const Descriptor& descriptor) {
  return collective::ShapeOf(descriptor, std::max(1U, world_size), Rank());
}

Status NoRoom(std::uint64_t needed, std::uint64_t there, std::uint32_t world_size) {
  return {Code::kInvalidArgument, "the output has room for " + std::to_string(there) + " bytes, and a group of " +
                                      std::to_string(world_size) + " peers needs " + std::to_string(needed)};
}

// Memory that lives as long as a frame uses it.
struct OpMemory {
  Keep regions;
  std::shared_ptr<std::byte[]> own_output;
  std::shared_ptr<std::vector<std::byte>> own_input;
};

}  // namespace

// ---------------------------------------------------------------------------------------------- trainer

Status Peer::Impl::Submit(Submission submission, TimePoint now) {
  now_ = now;
  if (!modified_.empty()) return {Code::kBufferModified, modified_};
  if (leaving_ || ended_) return {Code::kShuttingDown, "this peer is leaving its group and takes no new operations"};
  const bool update = submission.descriptor.kind == OpKind::kUpdateView;
  if (update_open_) return {Code::kInvalidArgument, "UpdateView is running: wait for it before submitting more"};
  if (update && table_.untold() > 0)
    return {Code::kInvalidArgument, "UpdateView needs all earlier operations of this session to be done"};
  const collective::Shape shape = ShapeIn(view_.world_size(), submission.descriptor);
  const std::uint64_t output_bytes = shape.count * SizeOf(submission.descriptor.dtype);
  if (output_bytes > submission.result_bytes) return NoRoom(output_bytes, submission.result_bytes, view_.world_size());
  Operation& op = table_.Add(std::move(submission));
  op.shape = shape;
  op.since = op.staged_at = now;
  watchdog_.Moved(now);
  WatchBy(op.submission.deadline);
  if (update) update_open_ = true;
  if (running()) Start(op);
  AfterProgress();
  return Status::Ok();
}

void Peer::Impl::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  Operation* op = table_.FindToken(token);
  if (op == nullptr || input_bytes_ready <= op->submission.input_bytes_ready) return;
  op->submission.input_bytes_ready = std::min(input_bytes_ready, op->input_bytes());
  op->staged_at = now_;
  watchdog_.Moved(now_);
  StartWork(*op);
  AfterProgress();
}

void Peer::Impl::Cancel(std::uint64_t token, TimePoint now) {
  now_ = now;
  Operation* op = table_.FindToken(token);
  if (op == nullptr || op->has_outcome() || ended_) return;
  op->cancel = true;
  if (running()) {
    Trouble("operation " + ToString(op->name) + " is cancelled");
  } else if (installed()) {
    SendReport("operation " + ToString(op->name) + " is cancelled");
  }
}

// ---------------------------------------------------------------------------------------------- attempts

bool Peer::Impl::IsSmall(const Operation& op) const {
  return !op.is_update() && op.shape.shared && op.output_bytes() <= view_.plan.small_bytes_max;
}

// The last quarter of the room is for small ones: of those nobody says that they are done.
bool Peer::Impl::IsToBeRetained(const Operation& op) const {
  const std::uint64_t room = IsSmall(op) ? options_.retained_bytes_max : options_.retained_bytes_max / 4 * 3;
  const bool may_be = !op.is_update() && op.shape.shared && op.output_bytes() <= view_.plan.retained_bytes_max;
  return may_be && table_.retained_bytes() + op.output_bytes() <= room;
}

void Peer::Impl::StartAll() {
  std::vector<OpName> names;
  for (const auto& [name, op] : table_.ops()) names.push_back(name);
  for (const OpName& name : names) {
    if (!running()) return;
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
  if (!op.is_update() && view_.world_size() < view_.min_world) {
    if (RINGWAY_MUTANT(kTooSmallAlone)) return Fail(op, Code::kWorldTooSmall, "decided alone");
    trouble_pending_ = true;
    trouble_reason_ = "operation " + ToString(op.name) + " needs more peers";
    return;
  }
  op.shape = collective::ShapeOf(op.submission.descriptor, view_.world_size(), *view_.RankOf(self_));
  op.has_part = false;
  if (!HasRoomFor(op)) {  // worlds do not grow under an operation, unless the master errs
    op.mismatch = NoRoom(op.output_bytes(), op.submission.result_bytes, view_.world_size()).text();
    trouble_pending_ = true;
    trouble_reason_ = "operation " + ToString(op.name) + ": " + op.mismatch;
    return;
  }
  if (op.is_update()) op.next_seqs = AgreedSeqs();
  op.ready.clear();  // not when it stopped: until now it tells whom it waited for
  op.algorithm = AlgorithmOf(op);
  op.submission.descriptor.schedule = op.algorithm;
  Launch(op, ScheduleOf(op.submission.descriptor.kind, op.algorithm));
  if (const auto early = early_ready_.extract(op.name); !early.empty()) {
    for (const auto& [peer, descriptor] : early.mapped()) OnReady(peer, op.name, descriptor);
  }
  if (!IsSmall(op)) SendReady(op);
  if (RINGWAY_MUTANT(kDoneTooEarly)) SendDone(op.name);
  StartWork(op);
}

// The same on every rank. Where it would need too much memory, a ring does.
Algorithm Peer::Impl::AlgorithmOf(const Operation& op) const {
  const std::uint64_t bytes = op.output_bytes();
  const Algorithm planned = op.submission.algorithm.value_or(view_.plan.AlgorithmFor(bytes));
  const Algorithm wanted = collective::AlgorithmFor(op.submission.descriptor.kind, planned);
  const std::uint64_t aside = collective::AsideBytesMax(wanted, view_.world_size(), bytes);
  return aside <= std::max(kAsideBuffersMax * bytes, kAsideBytesMax) ? wanted : Algorithm::kRing;
}

// Made once a view: of many ranks it takes longer than a small operation.
const collective::Schedule& Peer::Impl::ScheduleOf(OpKind collective, Algorithm algorithm) {
  const auto found = schedules_.find({collective, algorithm});
  if (found != schedules_.end()) return found->second;
  const Rank self = *view_.RankOf(self_);
  return schedules_
      .emplace(std::pair(collective, algorithm), collective::MakeSchedule(collective, algorithm, view_.routes, self))
      .first->second;
}

void Peer::Impl::Launch(Operation& op, collective::Schedule schedule) {
  Retain(op, schedule.everyone_sums);
  op.stage = Stage::kRunning;
  op.attempt = next_attempt_++;
  live_.insert(op.attempt);
  op.memory = std::make_shared<OpMemory>(OpMemory{op.submission.keep, op.own_output, op.own_input});
  // What this rank has finished and prepared is frozen here, for all its contributions to this attempt.
  const Stamp stamp{NewestPrepared(), table_.CompleteUpto(op.name.channel)};
  op.executor.reset();
  op.reporter = std::make_unique<ReadyReporter>(&ready_, op.name);
  op.executor = std::make_unique<Executor>(std::move(schedule),
                                           collective::ExecutorOptions{
                                               .descriptor = op.submission.descriptor,
                                               .shape = op.shape,
                                               .world_size = op.fetching ? kNotAlone : view_.world_size(),
                                               .segment_bytes_max = view_.plan.segment_bytes_max,
                                               .input = op.own_input ? op.own_input->data() : op.submission.input,
                                               .output = op.output(),
                                               .input_bytes_ready = op.fetching ? 0 : InputBytesReady(op),
                                               .trainers_output = !op.own_output,
                                               .stamp = stamp,
                                               .memory = options_.memory.get(),
                                               .sink = op.reporter.get(),
                                           });
}

// Committed without this rank: the bytes come from the lowest holder.
void Peer::Impl::StartFetch(Operation& op) {
  const auto world = static_cast<std::uint32_t>(op.outcome.contributors.size());
  op.shape = ShapeIn(world, op.submission.descriptor);
  op.shape.input = {};
  if (!op.shape.shared || !HasRoomFor(op)) {  // the master errs
    return End(Code::kProtocol, "operation " + ToString(op.name) + " is committed, and cannot be fetched");
  }
  if (op.output_bytes() == 0) {
    op.stage = Stage::kRunning;
    return OnComputed(op);
  }
  const auto holder = std::find_if(view_.members.begin(), view_.members.end(), [&](PeerId peer) {
    return peer != self_ && (op.holders.contains(peer) || RINGWAY_MUTANT(kFetchFromAnybody));
  });
  if (holder == view_.members.end())
    return Trouble("operation " + ToString(op.name) + " is committed and nobody holds it");
  op.submission.descriptor.schedule = kFetchedAs;
  Launch(op, collective::FetchSchedule(*view_.RankOf(*holder), *view_.RankOf(self_), *view_.RankOf(self_),
                                       FetchedParts(op)));
  AddNote("fetch", "epoch=" + ToString(view_.epoch) + " op=" + ToString(op.name) + " from=" + Word(NameOf(*holder)));
  control::PeerMessage message;
  message.mutable_fetch()->set_epoch(view_.epoch.value);
  message.mutable_fetch()->set_channel(op.name.channel.value);
  message.mutable_fetch()->set_seq(op.name.seq);
  Send(*holder, std::move(message));
}

void Peer::Impl::Stop(Operation& op) {
  live_.erase(op.attempt);
  Seal(op);
  op.executor.reset();
  for (const auto& [peer, bytes] : std::exchange(op.unready_bytes, {})) {
    unready_[peer] -= bytes;
    if (const auto rank = view_.RankOf(peer)) ready_.Unblock(*rank);
  }
  if (op.has_outcome()) return;
  op.stage = Stage::kQueued;
  op.holders.clear();
}

void Peer::Impl::MarkReady(Operation& op, PeerId peer) {
  if (!op.ready.insert(peer).second) return;
  if (const auto sent = op.unready_bytes.find(peer); sent != op.unready_bytes.end()) {
    unready_[peer] -= sent->second;
    op.unready_bytes.erase(sent);
  }
  if (const auto rank = view_.RankOf(peer)) ready_.Unblock(*rank);
}

// The next one on its channel may go beyond the eager window, if it is small.
void Peer::Impl::MarkComplete(const Operation& op) {
  table_.MarkComplete(op.name);
  ready_.Unblock({op.name.channel, table_.CompleteUpto(op.name.channel) + 1});
}

// ---------------------------------------------------------------------------------------------- outcomes

void Peer::Impl::OnComputed(Operation& op) {
  RINGWAY_CHECK(op.stage == Stage::kRunning && running());
  if (!op.fetching) {
    const Stamp stamp = op.executor->stamp();
    op.outcome = {Code::kOk, "", view_.epoch, view_.members, stamp.prepared};
    for (const PeerId member : view_.members) {
      table_.Acknowledge(member, op.name.channel, stamp.acknowledged);
      MarkReady(op, member);  // its contribution is in
    }
  }
  op.fetching = false;
  op.has_part = !op.shape.shared;
  table_.AddHolder(op, self_);
  held_.Drop(op.name, view_.epoch);
  if (!op.has_part || RINGWAY_MUTANT(kPartIsAll)) Possess(op);
  if (!op.own_output || !IsSmall(op)) SendDone(op.name);  // copies are not kept for long, and somebody may have no room
  Settle(op);
}

void Peer::Impl::Possess(Operation& op) {
  op.has_part = false;
  op.stage = Stage::kComplete;
  MarkComplete(op);
}

// Told when every member holds it; at once where a copy stays here.
void Peer::Impl::Settle(Operation& op) {
  if (!running()) return;
  if (op.has_part && table_.AllHold(op, view_)) Possess(op);
  if (op.stage != Stage::kComplete) return;
  const bool early =
      RINGWAY_MUTANT(kSkipDone) || (RINGWAY_MUTANT(kTellLargeByVerdict) && op.outcome.epoch < view_.epoch);
  if (op.outcome.code != Code::kOk || op.own_output || table_.AllHold(op, view_) || early) {
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
  ++(ok ? counts_.ops_done : counts_.ops_failed);
  watchdog_.Moved(now_);
  if (ok) watchdog_.Calm(op.output_bytes());
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
    const auto adopted = prepared_.find(RINGWAY_MUTANT(kUpdateAlone) ? NewestPrepared() : op.outcome.prepared);
    if (ok && adopted != prepared_.end() && adopted->first > op.outcome.epoch) {
      // Every rank names the adopted view, also one that lives in a later view when it learns of it.
      complete.epoch = adopted->first;
      complete.contributors.clear();
      for (const auto& info : adopted->second.members()) complete.contributors.emplace_back(info.peer_id());
      if (!RINGWAY_MUTANT(kReportOldUpdate) || adopted->first > view_.epoch) last_update_ = ReportOf(op);
      if (adopted->first > view_.epoch) InstallPrepared(adopted->first);
    }
    if (!to_take_back_.empty()) DropTakenBack();
  }
  complete.token = op.submission.token;
  complete.code = op.outcome.code;
  complete.text = op.outcome.text;
  complete.op = op.name;
  const auto place = std::find(complete.contributors.begin(), complete.contributors.end(), self_);
  complete.rank = static_cast<std::uint32_t>(place - complete.contributors.begin());
  complete.wire_bytes = op.wire_bytes;
  complete.retries = op.retries;
  complete.algorithm = op.algorithm;
  complete.bytes = op.output_bytes();
  complete.codec = op.submission.descriptor.codec;
  complete.submitted = op.since;
  // Of the agreed outcome alone: a rank that is told in a later view says the same.
  complete.update_waits = ok && !op.is_update() && op.outcome.prepared > op.outcome.epoch;
  Emit(std::move(complete));
}

void Peer::Impl::Fail(Operation& op, Code code, const std::string& text) {
  Stop(op);
  Unretain(op);  // nobody will ask for it, and others may submit theirs late
  op.memory.reset();
  op.fetching = op.has_part = false;
  op.outcome = {code, text, view_.epoch, {}, {}};
  op.stage = Stage::kComplete;
  table_.AddHolder(op, self_);
  MarkComplete(op);
  AddNote("operation_failed",
          "epoch=" + ToString(view_.epoch) + " op=" + ToString(op.name) + " code=" + ringway::NameOf(code) +
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
      AddNote("contradiction", "op=" + ToString(op.name) + " verdict differs from the outcome here", Severity::kError);
    RINGWAY_CHECK(same || op.told == false || code == Code::kInternal);
    if (RINGWAY_MUTANT(kDropAfterVerdict) && op.told) op.own_output.reset();
    return;  // StartAll settles it
  }
  if (code != Code::kOk) return Fail(op, code, verdict.text());
  if (op.has_part && op.outcome.epoch == Epoch(verdict.result_epoch())) {
    for (const PeerId peer : op.outcome.contributors) table_.AddHolder(op, peer);  // each of its own part
    return Possess(op);
  }
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
                   : op.has_part                ? control::OP_STAGE_PART
                                                : control::OP_STAGE_RUNNING);
  if (!possessed) {
    report.set_cancel(op.cancel);
    report.set_mismatch(op.mismatch);
    report.set_overdue(op.overdue);
    if (op.hung_in == view_.epoch) {
      for (const PeerId peer : op.hung_for) report.add_hung_for(peer.value);
    }
    if (!op.has_part) return report;
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
  live_.erase(op.attempt);
  work_.erase(op.name);
  held_.Drop(op.name, view_.epoch);
  if (options_.memory != nullptr) options_.memory->Give(MemoryUse::kResults, op.retained_bytes);
  std::erase_if(serving_, [&](const Serving& serving) {
    if (serving.name != op.name) return false;
    live_.erase(serving.attempt);
    return true;
  });
}

// A view that is installed here, by an UpdateView that is told, makes all due again.
void Peer::Impl::SettleDue() {
  while (running() && table_.has_due()) {
    Operation* op = table_.Find(table_.TakeDue());
    if (op == nullptr) continue;
    Settle(*op);
    if (!running() || !table_.IsFinished(*op, view_)) continue;
    Retire(*op);
    table_.Forget(op->name);
  }
}

void Peer::Impl::AfterProgress() {
  if (running() && std::exchange(early_are_due_, false)) {
    for (const auto& [from, messages] : std::exchange(early_, {})) {
      for (const control::PeerMessage& message : messages) Handle(from, message);
    }
  }
  if (trouble_pending_) {
    trouble_pending_ = false;
    if (running()) Trouble(trouble_reason_);
  }
  SettleDue();
  if (leaving_) TryLeave();
}

}  // namespace ringway::agreement
