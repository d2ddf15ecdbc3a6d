#include "daemon/agreement/peer.h"

#include <optional>
#include <utility>

#include "daemon/agreement/askers.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/frame_router.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/message_frames.h"
#include "daemon/agreement/message_table.h"
#include "daemon/agreement/messages.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/operations.h"
#include "daemon/agreement/paths.h"
#include "daemon/agreement/point_to_point.h"
#include "daemon/transfer/transfer.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

// The parts of a peer:
//
//   Context         who it is, the time, the view in force; actions and counts go out there
//   Transfer        attempts, frames in and out: the data path
//   Links           which stand; messages and lanes that break and are repaired
//   Paths           what they carry
//   Membership      views, reports, accusations, leaving
//   OperationWatch  what waits for long
//   Operations      from submission to outcome
//   PointToPoint    the same of sends and recvs, whose attempts MessageFrames runs
//   FrameRouter     which of these a frame reaches
//
// Each may call those above it, and look up operations and attempts. What concerns those below comes back as a value,
// or by a listener: this class. It and Peer decide nothing but which parts an event reaches, and in which order.
class Peer::Impl final : private collective::BoardMember,
                         private transfer::BufferGuard::Listener,
                         private Links::Listener,
                         private Membership::Listener {
 public:
  Impl(PeerId self, std::string group, PeerOptions options)
      : ctx(self, std::move(group), std::move(options)),
        transfer(ctx.now, ctx.counts, ctx.options.memory.get(), *this),
        links(ctx, transfer.attempts, *this),
        paths(ctx, links),
        membership(ctx, links, table, *this),
        messages(ctx.self),
        watch(ctx, table, messages, membership),
        message_frames(ctx, messages, transfer),
        operations(ctx, links, table, membership, transfer),
        point_to_point(ctx, links, membership, messages, message_frames),
        frames(ctx, links, operations, message_frames, transfer),
        askers(ctx) {
    if (ctx.options.board != nullptr) ctx.options.board->Enter(self, this);
  }
  ~Impl() {
    if (ctx.options.board != nullptr) ctx.options.board->Exit(ctx.self);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Sets the time; each event that carries it begins so.
  Impl& At(TimePoint now) {
    ctx.now = now;
    return *this;
  }
  // Operations may start, where the view has changed.
  void StartIn(Membership::Change change);
  void DropLinks(PeerId other);
  control::PeerMessage Heartbeat() const;
  void Handle(PeerId from, const control::PeerMessage& message);
  // After anything that may have made operations due: replays what came too early, acts on requested recoveries,
  // reports and forgets, leaves.
  void AfterProgress();
  // No operation has anything to do here, nor has a recovery.
  bool MayProbe() const;
  void NoteWork();

  Context ctx;
  transfer::Transfer transfer;  // outlives all attempts
  Links links;
  Paths paths;
  OpTable table;
  Membership membership;
  MessageTable messages;
  OperationWatch watch;
  MessageFrames message_frames;
  Operations operations;
  PointToPoint point_to_point;
  FrameRouter frames;
  Askers askers;
  std::optional<TimePoint> stopped_at;  // the view in force

 private:
  // ---- collective::BoardMember
  void OnRoundAdvanced(const OpName& op) override {
    operations.OnRoundAdvanced(op);
    ctx.options.wake();
  }

  // ---- BufferGuard::Listener
  void OnModified(const std::string& what, const std::string& buffer) override;

  // ---- Links::Listener
  void OnLaneDown(const LinkId& lane) override { transfer.in.Drop(lane); }
  void OnFrameLost(PeerId to, const links::SentFrame& frame) override { transfer.out.OnLost(to, frame); }
  void OnFrameRefused(const links::SentFrame& frame) override { transfer.guard.OnRefused(frame); }
  void OnFault(const std::vector<PeerId>& others, const std::string& why) override { membership.Accuse(others, why); }

  // ---- Membership::Listener
  void OnStop() override;
  void OnPrepared(const View& next) override { paths.OnPrepared(next); }
  void OnInstalled(const View& before) override;
  void Describe(control::Report& report) const override {
    operations.Describe(report);
    SeqsTo(watch.SubmittedSeqs(), *report.mutable_next_seq());
    watch.Describe(*report.mutable_messages());
  }
  void OnEnd(Code code, const std::string& text) override {
    operations.OnEnd(code, text);
    point_to_point.OnEnd(code, text);
  }
  bool HasToFinish() const override { return point_to_point.HasToFinish(); }
};

namespace {

OpName NameIn(std::uint32_t channel, std::uint64_t seq) { return {ChannelId(channel), seq}; }

}  // namespace

void Peer::Impl::OnStop() {
  if (ctx.views.installed() && !stopped_at) stopped_at = ctx.now;
  if (ctx.views.frozen()) watch.OnStop();
  operations.OnStop();
  if (!ctx.views.frozen() || RINGWAY_MUTANT(kCompleteWhileFrozen)) return;
  operations.StopAll();
  point_to_point.OnStop();
}

void Peer::Impl::OnInstalled(const View& before) {
  if (stopped_at) ctx.durations.recovery.Add(ctx.now - *std::exchange(stopped_at, {}));
  if (RINGWAY_MUTANT(kCompleteWhileFrozen)) operations.StopAll();
  for (const PeerId old : before.members) {
    if (ctx.view().Contains(old)) continue;
    point_to_point.ForgetPeer(old);
    DropLinks(old);
    table.ForgetPeer(old);
  }
  askers.OnView();
  watch.OnView();
  operations.OnView();
  point_to_point.OnView();
  transfer.queue.OnView(ctx.view().members, ctx.view().plan.eager_bytes_max);
  links.OnView();
}

void Peer::Impl::StartIn(Membership::Change change) {
  if (change == Membership::Change::kNone) return;
  membership.AccuseMissing();
  if (ctx.views.running() && operations.StartAll()) AfterProgress();
}

void Peer::Impl::DropLinks(PeerId other) {
  if (!links.Knows(other)) return;
  transfer.in.DropAllOf(other);
  membership.ForgetEarly(other);
  links.Forget(other);
  paths.Forget(other);
  askers.Drop(other);
}

control::PeerMessage Peer::Impl::Heartbeat() const {
  control::PeerMessage message;
  message.mutable_heartbeat()->set_epoch(ctx.views.running() ? ctx.view().epoch.value : 0);
  if (ctx.views.running()) watch.Describe(*message.mutable_heartbeat());
  if (links.held() && !RINGWAY_MUTANT(kAskNobody)) message.mutable_heartbeat()->set_takes_state(true);
  return message;
}

void Peer::Impl::Handle(PeerId from, const control::PeerMessage& message) {
  if (message.has_heartbeat()) askers.OnHeartbeat(from, message.heartbeat().takes_state());
  if (message.has_abort()) {
    RINGWAY_REACHED_IF(Epoch(message.abort().epoch()) > ctx.views.stop(), kFreezeForPeer);
    if (ctx.view().Contains(from) || !ctx.views.installed()) membership.OnAbort(Epoch(message.abort().epoch()));
    return;
  }
  if (message.has_lane_closed()) {
    if (links.Knows(from)) links.OnLaneClosed(from, message.lane_closed());
    return;
  }
  if (message.has_lanes_wanted()) {
    return links.WantLanes(from, message.lanes_wanted().lanes(), links::Mesh::End::kThere);
  }
  if (message.has_probe()) return paths.OnProbe(from, message.probe());
  if (message.has_activate()) return StartIn(membership.OnActivate(message.activate()));
  const bool is_ready = message.point_to_point().step() == control::PointToPoint::STEP_READY;
  if (message.has_point_to_point() && !is_ready) {
    point_to_point.OnMessage(from, message.point_to_point());
    return AfterProgress();
  }
  const Epoch epoch = EpochOf(message);
  if (epoch > ctx.view().epoch && epoch > ctx.views.stop()) {
    if (RINGWAY_MUTANT(kDropEarlyMessages)) return;
    if (message.has_heartbeat() && ctx.view().Contains(from)) watch.Heard(from, message.heartbeat(), true);
    if (message.has_heartbeat() || !links.Knows(from)) return;
    RINGWAY_REACHED(kHoldEarlyMessage);
    return membership.AddEarly(from, message);
  }
  if (epoch != ctx.view().epoch || !ctx.views.running() || !ctx.view().Contains(from)) return;
  if (!message.has_heartbeat()) ctx.Moved();
  if (message.has_ready()) {
    RINGWAY_REACHED(kTakeReady);
    const Descriptor descriptor = DescriptorFrom(message.ready()).value();  // checked when it came
    operations.OnReady(from, NameIn(message.ready().channel(), message.ready().seq()), descriptor);
  } else if (message.has_done()) {
    RINGWAY_REACHED(kTakeDone);
    operations.OnDone(from, NameIn(message.done().channel(), message.done().seq()));
  } else if (message.has_heartbeat()) {
    for (const auto& [channel, seq] : SeqsFrom(message.heartbeat().complete_upto())) {
      table.Acknowledge(from, channel, seq);
    }
    RINGWAY_REACHED(kTakeHeartbeat);
    watch.Heard(from, message.heartbeat(), false);
  } else if (message.has_fetch()) {
    operations.words().OnFetch(from, NameIn(message.fetch().channel(), message.fetch().seq()));
  } else if (message.has_resend()) {
    operations.words().OnResend(from, message.resend());
  } else if (message.has_offer()) {
    operations.OnOffer(from, message.offer());
  } else if (message.has_inputs()) {
    operations.OnInputs(from, message.inputs());
  } else if (message.has_point_to_point()) {
    point_to_point.OnMessage(from, message.point_to_point());
  }
  AfterProgress();
}

void Peer::Impl::AfterProgress() {
  if (ctx.views.running()) {
    for (const auto& [from, early] : membership.TakeEarly()) {
      for (const control::PeerMessage& message : early) Handle(from, message);
    }
  }
  membership.ActOnRequests();
  operations.SettleDue();
  point_to_point.Settle();
  if (membership.leaving()) membership.TryLeave();
}

bool Peer::Impl::MayProbe() const {
  if (ctx.views.ended() || membership.leaving() || transfer.out.serves()) return false;
  if (ctx.views.installed() ? ctx.views.frozen() : !membership.forming()) return false;
  return table.pending() == 0 && !table.AnyUnsubmittedOpen() && !point_to_point.moves_data() && paths.IsHostQuiet();
}

// The peer leaves at once, as one whose trainer died: the others abort the view and go on without it. Its operations
// and its session end with kBufferModified, whatever else the leaving comes to.
void Peer::Impl::OnModified(const std::string& what, const std::string& buffer) {
  if (ctx.views.ended()) return;
  RINGWAY_REACHED(kLeaveModified);
  membership.LeaveAtOnce(Code::kBufferModified,
                         "this trainer wrote to the " + buffer + " of " + what +
                             " before it was done; the others go on without this peer: correct the trainer, join "
                             "again and take their state");
  ctx.AddNote("buffer_modified", {{"epoch", ToString(ctx.view().epoch)}, {"op", what}, {"buffer", buffer}},
              Severity::kWarning);
}

void Peer::Impl::NoteWork() {
  if (table.moves_data() || point_to_point.moves_data() || transfer.out.serves()) paths.OnWork();
}

// ---------------------------------------------------------------------------------------------- the peer

Peer::Peer(PeerId self, std::string group, PeerOptions options)
    : impl_(std::make_unique<Impl>(self, std::move(group), std::move(options))) {}
Peer::~Peer() = default;
Peer::Peer(Peer&&) noexcept = default;

std::vector<Action> Peer::TakeActions() { return impl_->ctx.TakeActions(); }
const View& Peer::view() const { return impl_->ctx.view(); }
const PeerCounts& Peer::counts() const { return impl_->ctx.counts; }
const Wait& Peer::wait() const { return impl_->watch.wait(); }
std::uint64_t Peer::NextSequence(ChannelId channel) const { return impl_->table.NextSeq(channel); }

PeerStatus Peer::GetStatus() const {
  const Impl& in = *impl_;
  PeerStatus status;
  static_cast<PeerCounts&>(status) = in.ctx.counts;
  status.durations = in.ctx.durations;
  status.group = in.ctx.group;
  status.self = in.ctx.self;
  status.epoch = in.ctx.view().epoch;
  status.frozen = in.ctx.views.installed() && in.ctx.views.frozen();
  if (const auto rank = in.ctx.view().RankOf(in.ctx.self)) status.rank = rank->value;
  status.members = in.ctx.view().infos;
  for (const Rank rank : in.ctx.view().routes.ring) status.ring.push_back(rank.value);
  status.shares = in.ctx.view().routes.shares;
  status.ops_open = in.table.pending() + in.messages.open().size();
  status.held_bytes = in.transfer.early_room.bytes() + in.transfer.early_message_room.bytes();
  status.retained_bytes = in.table.retained_bytes();
  status.wait = in.watch.wait();
  return status;
}

void Peer::NoteWork(TimePoint now) { impl_->At(now).NoteWork(); }

void Peer::Tick(TimePoint now) {
  Impl& in = impl_->At(now);
  if (in.ctx.views.ended()) return;
  if (in.links.OnTick()) in.watch.OnGap();
  in.links.ForgetOldLosses();
  in.links.PumpDials();
  if (in.links.IsHeartbeatDue()) {
    in.links.SendHeartbeats(in.Heartbeat());
    in.operations.words().SendLateReadies();
  }
  in.membership.AccuseSilent();
  in.links.RestartSilent();
  in.links.AccuseBroken();
  in.watch.Tick();
  in.operations.SettleDue();
  in.point_to_point.Tick();
  in.paths.Tick(in.MayProbe());
  in.membership.TryLeave();
}

// ---------------------------------------------------------------------------------------------- master

void Peer::OnCandidates(const control::Candidates& candidates, TimePoint now) {
  impl_->At(now).membership.OnCandidates(candidates);
}
void Peer::OnPending(const control::Pending& pending) {
  RINGWAY_REACHED(kSayPending);
  impl_->ctx.Emit(StillPending{CodeFromWire(pending.code()), pending.text()});
}
void Peer::OnAbort(Epoch epoch, TimePoint now) {
  RINGWAY_REACHED_IF(epoch > impl_->ctx.views.stop(), kFreezeForMaster);
  impl_->At(now).membership.OnAbort(epoch);
}
void Peer::OnRevokePrepared(Epoch first) { impl_->membership.OnRevokePrepared(first); }
void Peer::OnEvicted(Code code, const std::string& text) { impl_->membership.OnEvicted(code, text); }

void Peer::OnForget(const control::Forget& forget, TimePoint) {
  Impl& in = *impl_;
  for (const std::uint64_t other : forget.others()) {
    const PeerId peer(other);
    if (in.ctx.view().Contains(peer)) continue;  // a member goes by a view, not by rumour
    RINGWAY_REACHED_IF(in.links.Knows(peer), kForgetPeer);
    in.point_to_point.ForgetPeer(peer);
    in.DropLinks(peer);
  }
}

void Peer::OnView(const control::ViewFor& message, TimePoint now) {
  Impl& in = impl_->At(now);
  const Membership::Change change = in.membership.OnView(message);
  if (change == Membership::Change::kDecided) in.operations.AdoptVerdicts(message.view());
  in.StartIn(change);
}

void Peer::OnMasterBack(TimePoint) {
  Impl& in = *impl_;
  if (in.ctx.views.ended()) return;
  in.links.ReportPairs();
  in.paths.Repeat();
  in.membership.OnMasterBack();
}

// ---------------------------------------------------------------------------------------------- links

Status Peer::Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const {
  return impl_->links.Admit(link, terms, who);
}

std::string Peer::DaemonOf(PeerId other) const { return impl_->links.DaemonOf(other); }
void Peer::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) {
  impl_->At(now).links.WantLanes(other, lanes, links::Mesh::End::kHere);
}

void Peer::OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now) {
  Impl& in = impl_->At(now);
  if (!in.links.Knows(link.other)) return;
  if (in.ctx.view().Contains(link.other)) in.ctx.Moved();
  if (in.links.OnUp(link, terms)) in.paths.OnStanding(link.other, terms);
}

void Peer::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) {
  Impl& in = impl_->At(now);
  if (!in.links.Knows(link.other)) return;
  if (in.ctx.view().Contains(link.other)) in.ctx.Moved();
  in.links.OnDown(link, why);
}

void Peer::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  Impl& in = impl_->At(now);
  if (in.links.Knows(other)) in.links.OnDialFailed(other, control, why);
}

void Peer::OnPathSamples(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink, TimePoint now) {
  Impl& in = impl_->At(now);
  if (in.ctx.views.ended()) return;
  if (in.paths.OnSamples(samples, uplink)) in.ctx.Moved();  // a segment takes long on a slow path
}

Status Peer::OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now) {
  Impl& in = impl_->At(now);
  if (in.ctx.views.ended() || !in.links.Knows(from)) return Status::Ok();
  const links::ControlStream::Verdict verdict = in.links.Take(from, message);
  if (verdict == links::ControlStream::Verdict::kBroken) {
    return {Code::kProtocol, "message " + std::to_string(message.number()) + " of " + in.ctx.NameOf(from) +
                                 " does not follow, or acknowledges what was not sent"};
  }
  if (in.links.MustAcknowledge(from)) in.links.Send(from, in.Heartbeat());
  RINGWAY_REACHED_IF(verdict == links::ControlStream::Verdict::kDuplicate, kSkipDuplicate);
  if (verdict != links::ControlStream::Verdict::kNew) return Status::Ok();
  for (const control::Ready* const op : {&message.ready(), &message.offer().op(), &message.inputs().op()}) {  // or none
    if (const Result<Descriptor> descriptor = DescriptorFrom(*op); !descriptor.ok()) return descriptor.status();
  }
  in.Handle(from, message);
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------- trainer

void Peer::OnStateTaken(TimePoint now) { impl_->At(now).links.Release(); }
void Peer::Cancel(std::uint64_t token, TimePoint now) {
  impl_->At(now).operations.Cancel(token);
  impl_->point_to_point.Cancel(token);
}
void Peer::SetDeadline(std::uint64_t token, Duration after, TimePoint now) {
  impl_->At(now).operations.SetDeadline(token, after);
  impl_->point_to_point.SetDeadline(token, after);
}
void Peer::Leave(TimePoint deadline, TimePoint now) { impl_->At(now).membership.Leave(deadline); }
void Peer::Abandon(TimePoint now) { Leave(now, now); }
bool Peer::HasWork() const { return impl_->operations.HasWork(); }
void Peer::Work() {
  if (impl_->operations.Work()) impl_->AfterProgress();
}
void Peer::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  impl_->point_to_point.OnStaged(token, input_bytes_ready);
  if (impl_->operations.OnStaged(token, input_bytes_ready)) impl_->AfterProgress();
}

Status Peer::Submit(Submission submission, TimePoint now) {
  Impl& in = impl_->At(now);
  const bool is_message = IsMessage(submission.descriptor.kind);
  Status status =
      is_message ? in.point_to_point.Submit(std::move(submission)) : in.operations.Submit(std::move(submission));
  in.NoteWork();
  if (status.ok()) in.AfterProgress();
  return status;
}

// ---------------------------------------------------------------------------------------------- data path

bool Peer::IsLive(std::uint64_t attempt) const { return attempt == 0 || impl_->transfer.attempts.IsLive(attempt); }
bool Peer::EmptyFrame(const LinkId& lane, Outbound& out) { return impl_->paths.EmptyFrame(lane, out); }
bool Peer::NeedsScratch() const { return impl_->table.any_codec(); }

Result<Inbound> Peer::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  Impl& in = *impl_;
  Result<Judged> judged = in.frames.OnHeader(lane, header);
  if (!judged.ok()) return judged.status();
  if (judged.value().differs) in.AfterProgress();
  if (judged.value().inbound.kind == Inbound::Kind::kDiscard) in.links.CountIn(lane);
  return std::move(judged.value().inbound);
}

Status Peer::OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  const Result<bool> taken = impl_->frames.OnPayload(lane, payload, hash);
  if (!taken.ok()) return taken.status();
  if (taken.value()) impl_->AfterProgress();
  impl_->links.CountIn(lane);
  return Status::Ok();
}

bool Peer::NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                       Outbound& out) {
  Impl& in = *impl_;
  if (in.frames.Next(lane, payload_bytes_max, scratch, out)) return true;
  return in.paths.has_dummies() && in.paths.NextDummy(lane, payload_bytes_max, in.MayProbe(), out);
}

std::vector<PeerId> Peer::PeersWithWork() const {
  const Impl& in = *impl_;
  std::vector<PeerId> out;
  if (in.paths.has_dummies()) in.paths.AddTargets(in.MayProbe(), out);
  in.frames.AddPeersWithWork(out);
  return out;
}

}  // namespace ringway::agreement
