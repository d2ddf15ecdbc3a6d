// Events, to the parts of the peer that they concern.
#include "daemon/agreement/peer_impl.h"

#include <string>
#include <utility>

#include "daemon/agreement/messages.h"
#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

OpName NameIn(std::uint32_t channel, std::uint64_t seq) { return {ChannelId(channel), seq}; }

}  // namespace

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
  if (change == Membership::Change::kDecided) operations_.AdoptVerdicts(message.view());
  StartIn(change);
}

void Peer::Impl::StartIn(Membership::Change change) {
  if (change == Membership::Change::kNone) return;
  membership_.AccuseMissing();
  if (ctx_.views.running() && operations_.StartAll()) AfterProgress();
}

void Peer::Impl::OnMasterBack() {
  if (ctx_.views.ended()) return;
  links_.ReportPairs();
  paths_.Repeat();
  membership_.OnMasterBack();
}

void Peer::Impl::OnStop() {
  if (ctx_.views.frozen()) watch_.OnStop();
  frames_in_.OnStop();
  if (ctx_.views.frozen() && !RINGWAY_MUTANT(kCompleteWhileFrozen)) operations_.StopAll();
}

void Peer::Impl::OnInstalled(const View& before) {
  if (RINGWAY_MUTANT(kCompleteWhileFrozen)) operations_.StopAll();
  for (const PeerId old : before.members) {
    if (ctx_.view().Contains(old)) continue;
    DropLinks(old);
    table_.ForgetPeer(old);
  }
  watch_.OnView();
  operations_.OnView();
  queue_.OnView();
  links_.OnView();
  frames_in_.OnView();
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
  if (ctx_.view().Contains(link.other)) watch_.Moved();
  if (links_.OnUp(link, terms)) paths_.OnStanding(link.other, terms.probe_bytes);
}

void Peer::Impl::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) {
  ctx_.now = now;
  if (!links_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) watch_.Moved();
  links_.OnDown(link, why);
}

void Peer::Impl::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  ctx_.now = now;
  if (links_.Knows(other)) links_.OnDialFailed(other, control, why);
}

void Peer::Impl::OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  if (paths_.OnSamples(samples)) watch_.Moved();  // a segment takes long on a slow path
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

// ---------------------------------------------------------------------------------------------- messages

control::PeerMessage Peer::Impl::Heartbeat() const {
  control::PeerMessage message;
  message.mutable_heartbeat()->set_epoch(ctx_.views.running() ? ctx_.view().epoch.value : 0);
  if (ctx_.views.running()) {
    watch_.Describe(*message.mutable_heartbeat());
  }
  return message;
}

Status Peer::Impl::OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended() || !links_.Knows(from)) return Status::Ok();
  const links::ControlStream::Verdict verdict = links_.Take(from, message);
  if (verdict == links::ControlStream::Verdict::kBroken) {
    return {Code::kProtocol, "message " + std::to_string(message.number()) + " of " + ctx_.NameOf(from) +
                                 " does not follow, or acknowledges what was not sent"};
  }
  if (links_.MustTell(from)) links_.Send(from, Heartbeat());
  if (verdict != links::ControlStream::Verdict::kNew) return Status::Ok();
  if (message.has_ready()) {
    if (const Result<Descriptor> descriptor = DescriptorFrom(message.ready()); !descriptor.ok()) {
      return descriptor.status();
    }
  }
  Handle(from, message);
  return Status::Ok();
}

void Peer::Impl::Handle(PeerId from, const control::PeerMessage& message) {
  if (message.has_abort()) {
    if (ctx_.view().Contains(from) || !ctx_.views.installed()) membership_.OnAbort(Epoch(message.abort().epoch()));
    return;
  }
  if (message.has_lane_closed()) {
    if (links_.Knows(from)) links_.OnLaneClosed(from, message.lane_closed());
    return;
  }
  if (message.has_lanes_wanted()) {
    return links_.WantLanes(from, message.lanes_wanted().lanes(), links::Mesh::End::kThere);
  }
  if (message.has_probe()) return paths_.OnProbe(from, message.probe());
  if (message.has_activate()) return StartIn(membership_.OnActivate(message.activate()));
  const Epoch epoch(message.has_ready()   ? message.ready().epoch()
                    : message.has_done()  ? message.done().epoch()
                    : message.has_fetch() ? message.fetch().epoch()
                    : message.has_again() ? message.again().epoch()
                                          : message.heartbeat().epoch());
  if (epoch > ctx_.view().epoch && epoch > ctx_.views.stop()) {
    if (RINGWAY_MUTANT(kDropEarlyMessages)) return;
    if (message.has_heartbeat() && ctx_.view().Contains(from)) watch_.Heard(from, message.heartbeat(), true);
    if (message.has_heartbeat() || !links_.Knows(from)) return;
    return membership_.AddEarly(from, message);
  }
  if (epoch != ctx_.view().epoch || !ctx_.views.running() || !ctx_.view().Contains(from)) return;
  if (!message.has_heartbeat()) watch_.Moved();
  if (message.has_ready()) {
    const Descriptor descriptor = DescriptorFrom(message.ready()).value();  // checked when it came
    operations_.OnReady(from, NameIn(message.ready().channel(), message.ready().seq()), descriptor);
  } else if (message.has_done()) {
    Operation* op = table_.Find(NameIn(message.done().channel(), message.done().seq()));
    if (op == nullptr) return;
    table_.AddHolder(*op, from);
  } else if (message.has_heartbeat()) {
    for (const auto& [channel, seq] : SeqsFrom(message.heartbeat().complete_upto())) {
      table_.Acknowledge(from, channel, seq);
    }
    watch_.Heard(from, message.heartbeat(), false);
  } else if (message.has_fetch()) {
    frames_out_.Serve(from, NameIn(message.fetch().channel(), message.fetch().seq()));
  } else if (message.has_again()) {
    frames_out_.OnAgain(from, message.again());
  }
  AfterProgress();
}

// After anything that may have made operations ripe: replays what came too early, acts on trouble, tells and forgets,
// leaves.
void Peer::Impl::AfterProgress() {
  if (ctx_.views.running()) {
    for (const auto& [from, messages] : membership_.TakeEarly()) {
      for (const control::PeerMessage& message : messages) Handle(from, message);
    }
  }
  membership_.ActOnTrouble();
  operations_.SettleDue();
  if (membership_.leaving()) membership_.TryLeave();
}

// ---------------------------------------------------------------------------------------------- trainer

Status Peer::Impl::Submit(Submission submission, TimePoint now) {
  ctx_.now = now;
  Status status = operations_.Submit(std::move(submission));
  if (status.ok()) AfterProgress();
  return status;
}

void Peer::Impl::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  if (operations_.OnStaged(token, input_bytes_ready)) AfterProgress();
}

void Peer::Impl::Work() {
  if (operations_.Work()) AfterProgress();
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
  if (taken.value().as != FramesIn::Taken::As::kNothing) {
    operations_.OnTaken(taken.value());
    AfterProgress();
  }
  links_.CountIn(lane);
  return Status::Ok();
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
  if (links_.OnTick()) watch_.OnGap();
  links_.ForgetOldLosses();
  links_.PumpDials();
  if (links_.IsHeartbeatDue()) links_.SendHeartbeats(Heartbeat());
  membership_.AccuseSilent();
  links_.RestartSilent();
  links_.AccuseBroken();
  watch_.Tick();
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
  status.waits = watch_.waits();
  return status;
}

}  // namespace ringway::agreement
