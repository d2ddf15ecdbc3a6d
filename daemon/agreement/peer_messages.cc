// What members tell each other about operations, beside the segments.
#include <algorithm>

#include "daemon/agreement/messages.h"
#include "daemon/agreement/peer_impl.h"
#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

OpName NameIn(std::uint32_t channel, std::uint64_t seq) { return {ChannelId(channel), seq}; }

}  // namespace

void Peer::Impl::SendReady(const Operation& op) {
  std::set<PeerId> senders;
  for (const collective::Arrival& arrival : op.executor->arrivals())
    senders.insert(ctx_.view().members[arrival.from.value]);
  control::PeerMessage message;
  message.mutable_ready()->set_epoch(ctx_.view().epoch.value);
  message.mutable_ready()->set_channel(op.name.channel.value);
  message.mutable_ready()->set_seq(op.name.seq);
  const Descriptor& descriptor = op.submission.descriptor;
  message.mutable_ready()->set_kind(static_cast<std::uint32_t>(descriptor.kind));
  message.mutable_ready()->set_dtype(static_cast<std::uint32_t>(descriptor.dtype));
  message.mutable_ready()->set_op(static_cast<std::uint32_t>(descriptor.op));
  message.mutable_ready()->set_codec(static_cast<std::uint32_t>(descriptor.codec));
  message.mutable_ready()->set_algorithm(static_cast<std::uint32_t>(descriptor.schedule));
  message.mutable_ready()->set_count(descriptor.count);
  for (const PeerId sender : senders) links_.Send(sender, message);
}

void Peer::Impl::SendDone(const OpName& name) {
  control::PeerMessage message;
  message.mutable_done()->set_epoch(ctx_.view().epoch.value);
  message.mutable_done()->set_channel(name.channel.value);
  message.mutable_done()->set_seq(name.seq);
  links_.Broadcast(message);
}

control::PeerMessage Peer::Impl::Heartbeat() const {
  control::PeerMessage message;
  message.mutable_heartbeat()->set_epoch(ctx_.views.running() ? ctx_.view().epoch.value : 0);
  if (ctx_.views.running()) {
    SeqsTo(table_.CompleteUptoAll(), *message.mutable_heartbeat()->mutable_complete_upto());
    op_watch_.Describe(*message.mutable_heartbeat());
  }
  if (RINGWAY_MUTANT(kAcknowledgeAhead)) {
    for (control::ChannelSeq& seq : *message.mutable_heartbeat()->mutable_complete_upto()) seq.set_seq(seq.seq() + 1);
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
    if (message.has_heartbeat() && ctx_.view().Contains(from)) op_watch_.Heard(from, message.heartbeat(), true);
    if (message.has_heartbeat() || !links_.Knows(from)) return;
    return early_messages_.Add(from, message);
  }
  if (epoch != ctx_.view().epoch || !ctx_.views.running() || !ctx_.view().Contains(from)) return;
  if (!message.has_heartbeat()) op_watch_.Moved();
  if (message.has_ready()) {
    const Descriptor descriptor = DescriptorFrom(message.ready()).value();  // checked when it came
    OnReady(from, NameIn(message.ready().channel(), message.ready().seq()), descriptor);
  } else if (message.has_done()) {
    Operation* op = table_.Find(NameIn(message.done().channel(), message.done().seq()));
    if (op == nullptr) return;
    table_.AddHolder(*op, from);
  } else if (message.has_heartbeat()) {
    for (const auto& [channel, seq] : SeqsFrom(message.heartbeat().complete_upto())) {
      table_.Acknowledge(from, channel, seq);
    }
    op_watch_.Heard(from, message.heartbeat(), false);
  } else if (message.has_fetch()) {
    frames_out_.Serve(from, NameIn(message.fetch().channel(), message.fetch().seq()));
  } else if (message.has_again()) {
    frames_out_.OnAgain(from, message.again());
  }
  AfterProgress();
}

void Peer::Impl::OnReady(PeerId from, const OpName& name, const Descriptor& descriptor) {
  if (Operation* op = table_.Find(name)) {
    queue_.MarkReady(*op, from);
    if (op->executor && !op->fetching) (void)frames_in_.CheckDescriptor(*op, descriptor, from);
  } else if (name.channel.value < abi::kChannelCountMax && !table_.IsFinished(name) && !table_.IsTooFarAhead(name)) {
    early_ready_[name][from] = descriptor;
  }
}

}  // namespace ringway::agreement
