// Events, to the parts of the peer that they concern.
#include "daemon/agreement/peer_impl.h"

#include "proto/mutation.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- membership

void Peer::Impl::OnForget(const control::Forget& forget) {
  for (const std::uint64_t other : forget.others()) {
    const PeerId peer(other);
    if (ctx_.view().Contains(peer)) continue;  // a member goes by a view, not by rumour
    DropLinks(peer);
  }
}

void Peer::Impl::OnView(const control::ViewFor& message, TimePoint now) {
  ctx_.now = now;
  const Membership::Change change = membership_.OnView(message);
  if (change == Membership::Change::kDecided) AdoptVerdicts(message.view());
  StartIn(change);
}

void Peer::Impl::StartIn(Membership::Change change) {
  if (change == Membership::Change::kNone) return;
  membership_.AccuseMissing();
  if (ctx_.views.running()) StartAll();
}

void Peer::Impl::OnMasterBack() {
  if (ctx_.views.ended()) return;
  links_.ReportPairs();
  paths_.Repeat();
  membership_.OnMasterBack();
}

void Peer::Impl::OnStop() {
  if (ctx_.views.frozen()) op_watch_.OnStop();
  frames_in_.OnStop();
  if (ctx_.views.frozen() && !RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
}

void Peer::Impl::OnInstalled(const View& before) {
  if (RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
  for (const PeerId old : before.members) {
    if (ctx_.view().Contains(old)) continue;
    DropLinks(old);
    table_.ForgetPeer(old);
  }
  op_watch_.OnView();
  schedules_.clear();
  table_.MarkAllDue();
  queue_.OnView();
  links_.OnView();
  frames_in_.OnView();
  early_ready_.clear();
  early_messages_.OnView();
}

void Peer::Impl::Describe(control::Report& report) const {
  for (const auto& [name, op] : table_.ops()) *report.add_ops() = ReportOf(op);
  const OpName update{ChannelId(last_update_.channel()), last_update_.seq()};
  if (update.seq != 0 && !table_.ops().contains(update)) *report.add_ops() = last_update_;
  SeqsTo(table_.FinishedUptoAll(), *report.mutable_finished_upto());
  SeqsTo(op_watch_.SubmittedSeqs(), *report.mutable_next_seq());
}

void Peer::Impl::OnEnd(Code code, const std::string& text) {
  for (auto& [name, op] : table_.ops()) {
    Stop(op);
    if (op.told) continue;
    op.outcome = {code, text, ctx_.view().epoch, {}, {}};
    Tell(op);
  }
}

void Peer::Impl::StopAll() {
  for (auto& [name, op] : table_.ops()) Stop(op);
  frames_out_.StopServing();
}

void Peer::Impl::AdoptVerdicts(const control::View& view) {
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    if (!RINGWAY_MUTANT(kKeepOldVerdict))
      op.fetching = false;  // without a verdict it is a retry, whatever an earlier verdict said
    if (op.attempt == 0) continue;
    ++op.retries;
    ++ctx_.counts.ops_retried;
  }
  ahead_.clear();  // what still counts stands in this view
  for (const control::Verdict& verdict : view.verdicts()) {
    const OpName name{ChannelId(verdict.channel()), verdict.seq()};
    if (Operation* op = table_.Find(name)) {
      AdoptVerdict(*op, verdict);
    } else if (table_.IsFinished(name)) {
      SendDone(name);  // so that nobody waits for a rank that has forgotten it
    } else if (verdict.code() != 0 && !table_.IsTooFarAhead(name)) {
      ahead_[name] = verdict;
    }
  }
}

// ---------------------------------------------------------------------------------------------- links

void Peer::Impl::DropLinks(PeerId other) {
  if (!links_.Knows(other)) return;
  frames_in_.DropAllOf(other);
  links_.Forget(other);
  paths_.Forget(other);
}

void Peer::Impl::OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now) {
  ctx_.now = now;
  if (!links_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) op_watch_.Moved();
  if (links_.OnUp(link, terms)) paths_.OnStanding(link.other, terms.probe_bytes);
}

void Peer::Impl::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) {
  ctx_.now = now;
  if (!links_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) op_watch_.Moved();
  links_.OnDown(link, why);
}

void Peer::Impl::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  ctx_.now = now;
  if (links_.Knows(other)) links_.OnDialFailed(other, control, why);
}

void Peer::Impl::OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  if (paths_.OnSamples(samples)) op_watch_.Moved();  // a segment takes long on a slow path
}

bool Peer::Impl::MayProbe() const {
  if (ctx_.views.ended() || membership_.leaving() || frames_out_.serves()) return false;
  if (ctx_.views.installed() ? ctx_.views.frozen() : !membership_.forming()) return false;
  return table_.untold() == 0;
}

void Peer::Impl::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) {
  ctx_.now = now;
  links_.WantLanes(other, lanes, links::Mesh::End::kHere);
}

// ---------------------------------------------------------------------------------------------- data path

Result<Inbound> Peer::Impl::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  const Result<FramesIn::Judged> judged = frames_in_.OnHeader(lane, header);
  if (!judged.ok()) return judged.status();
  if (judged.value().differs) AfterProgress();
  if (judged.value().inbound.kind == Inbound::Kind::kDiscard) links_.CountIn(lane);
  return judged.value().inbound;
}

Status Peer::Impl::OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  const Result<FramesIn::Taken> taken = frames_in_.OnPayload(lane, payload, hash);
  if (!taken.ok()) return taken.status();
  if (taken.value().as != FramesIn::Taken::As::kNothing) OnTaken(taken.value());
  links_.CountIn(lane);
  return Status::Ok();
}

void Peer::Impl::OnTaken(const FramesIn::Taken& taken) {
  if (taken.as == FramesIn::Taken::As::kAccepted) {
    if (taken.op->executor->complete()) OnComputed(*taken.op);
  } else if (taken.op != nullptr) {
    StartWork(*taken.op);
  }
  AfterProgress();
}

bool Peer::Impl::NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                             Outbound& out) {
  if (frames_out_.Next(lane, payload_bytes_max, scratch, out)) return true;
  const bool is_probed = paths_.turn().contains(lane.other) && MayProbe();
  return is_probed && paths_.NextProbe(lane, payload_bytes_max, out);
}

std::vector<PeerId> Peer::Impl::PeersWithWork() const {
  std::vector<PeerId> out;
  if (!paths_.turn().empty() && MayProbe()) out.assign(paths_.turn().begin(), paths_.turn().end());
  frames_out_.AddPeersWithWork(out);
  return out;
}

// ---------------------------------------------------------------------------------------------- time

void Peer::Impl::Tick(TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  // A gap in the own loop: the input of that time has just been handled, so silence is not yet the others' fault.
  if (now - last_tick_ > ctx_.view().plan.detect / 2) {
    links_.HeardAll();
    op_watch_.OnGap();
  }
  last_tick_ = now;
  links_.ForgetOldLosses();
  links_.PumpDials();
  if (links_.IsHeartbeatDue()) links_.SendHeartbeats(Heartbeat());
  membership_.AccuseSilent();
  links_.RestartSilent();
  links_.AccuseBroken();
  op_watch_.Tick();
  paths_.Tick(MayProbe());
  membership_.TryLeave();
}

PeerStatus Peer::Impl::GetStatus() const {
  PeerStatus status;
  static_cast<PeerCounts&>(status) = ctx_.counts;
  status.group = ctx_.group;
  status.self = ctx_.self;
  status.epoch = ctx_.view().epoch;
  status.frozen = ctx_.views.installed() && ctx_.views.frozen();
  if (const auto rank = ctx_.view().RankOf(ctx_.self)) status.rank = rank->value;
  status.members = ctx_.view().infos;
  for (const Rank rank : ctx_.view().routes.ring) status.ring.push_back(rank.value);
  status.shares = ctx_.view().routes.shares;
  status.ops_open = table_.untold();
  status.held_bytes = frames_in_.held_bytes();
  status.retained_bytes = table_.retained_bytes();
  status.waits = op_watch_.waits();
  return status;
}

}  // namespace ringway::agreement
