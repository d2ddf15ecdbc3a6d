#include "daemon/agreement/message_frames.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "proto/collective/grid.h"
#include "proto/collective/schedule.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

namespace {

std::shared_ptr<const collective::Schedule> ScheduleOf(bool sends) {
  collective::Schedule schedule;
  if (sends) {
    schedule.departures.push_back({.to = MessageFrames::kReceiver, .source = collective::Source::kInput});
  } else {
    schedule.arrivals.push_back({.from = MessageFrames::kSender});
  }
  return collective::Share(std::move(schedule));
}

}  // namespace

// ---------------------------------------------------------------------------------------------- attempts

void MessageFrames::Launch(Message& message) {
  const std::uint64_t count = message.submission.descriptor.count;
  const collective::Range all{0, count};
  if (message.retries > 0) ++ctx_.counts.ops_retried;
  message.begun = false;
  // Both ends make the same one, from which they cut the same grid.
  const Descriptor descriptor{.kind = OpKind::kSend,
                              .dtype = message.submission.descriptor.dtype,
                              .schedule = Algorithm::kDirect,
                              .count = count,
                              .layout = message.name.stream.tag};
  const bool sends = message.sends();
  const collective::Range none{};
  message.attempt.Begin(
      transfer_.attempts, nullptr,
      {.epoch = ctx_.view().epoch,
       .schedule = ScheduleOf(sends),
       .options = {.descriptor = descriptor,
                   .shape = {.count = count, .input = sends ? all : none, .output = sends ? none : all},
                   .world_size = 2,
                   .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
                   .stamp = {},
                   .self = sends ? kSender : kReceiver}});
  if (sends) transfer_.messages.Add(message.attempt);
}

void MessageFrames::Stop(Message& message) {
  if (!message.attempt.live()) return;
  RINGWAY_REACHED_IF(ctx_.views.frozen(), kMessageStops);
  transfer_.messages.Remove(message.name);
  message.attempt.End();
  (void)Release(message);
  ++message.retries;
}

// More than all of its frames can cost where they are held.
std::uint64_t MessageFrames::EagerCost(const Message& message) {
  const std::uint64_t segments = message.bytes() / (collective::kSegmentBytesMin / 2) + 2;
  return message.bytes() + segments * transfer::EarlyRoom::kOverheadBytes;
}

bool MessageFrames::MayGoAhead(const Message& message) const {
  if (message.bytes() > ctx_.view().plan.small_bytes_max) return false;
  return ahead_.Used(message.other()) + EagerCost(message) <= EagerBytesMax();
}

void MessageFrames::Charge(Message& message) { ahead_.Charge(message.attempt, message.other(), EagerCost(message)); }

bool MessageFrames::Release(Message& message) { return ahead_.Release(message.attempt, message.other()); }

bool MessageFrames::Feed(Message& message) {
  EarlyMessage* early = table_.FindEarly(message.name);
  if (early == nullptr || early->epoch > ctx_.view().epoch) return false;
  const std::optional<EarlyMessage> taken = table_.TakeEarly(message.name);
  for (const auto& [segment, frame] : taken->frames) FeedOne(message, frame);
  return taken->refused;
}

void MessageFrames::ResendAll(Message& message) {
  for (std::uint32_t segment = 0; segment < message.attempt.executor().grid().Segments(0); ++segment)
    message.attempt.executor().Resend(kReceiver, 0, 0, segment);
}

// ---------------------------------------------------------------------------------------------- frames in

Result<Judged> MessageFrames::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  if (header.descriptor.layout > std::numeric_limits<std::uint32_t>::max() ||
      header.op.channel.value >= abi::kChannelCountMax || header.op.seq == 0) {
    return Status(Code::kProtocol, "segment of a message that no trainer can have submitted");
  }
  const MessageName name = NameOf(lane.other, header);
  if (table_.IsOver(name)) return Judged{};
  if (header.epoch > ctx_.view().epoch) return Hold(lane, header, name);
  if (!ctx_.view().Contains(lane.other))
    return Status(Code::kProtocol, "segment from a peer that is no member of its view");
  Message* message = table_.Find(name);
  if (message == nullptr || !message->attempt.live()) return Hold(lane, header, name);
  if (!Agrees(*message, header)) return Judged{.inbound = {}, .differs = true};
  message->begun = true;
  Result<Inbound> inbound = transfer_.in.Claim(lane, header, message->attempt, kSender);
  if (!inbound.ok()) return inbound.status();
  return Judged{.inbound = std::move(inbound).value()};
}

bool MessageFrames::Agrees(const Message& message, const SegmentHeader& header) {
  const Descriptor& ours = message.submission.descriptor;
  if (header.descriptor.dtype == ours.dtype && header.descriptor.count == ours.count) return true;
  differences_.push_back({message.name, header.descriptor});
  return false;
}

Result<Judged> MessageFrames::Hold(const LinkId& lane, const SegmentHeader& header, const MessageName& name) {
  if (!table_.MoveTo(lane.other, header.epoch)) return Judged{};
  EarlyMessage* early = table_.MakeEarly(name);
  if (early == nullptr) return Status(Code::kProtocol, "more messages in advance than a peer may send");
  if (early->failed) return Judged{};
  if (early->epoch < header.epoch) {
    early->frames.clear();
    early->refused = false;
    early->epoch = header.epoch;
  }
  if (early->frames.contains(header.segment)) return Judged{};
  transfer::EarlyRoom& room = transfer_.early_message_room;
  if (room.BytesFrom(lane.other) + transfer::EarlyRoom::Cost(header) > EagerBytesMax() + kPayloadBytesMax)
    return Status(Code::kProtocol, "more bytes of messages in advance than the plan allows");
  transfer::EarlyFrame frame = room.Reserve(lane.other, header);
  RINGWAY_REACHED_IF(frame.payload != nullptr, kMessageHeld);
  if (frame.payload != nullptr) return Judged{.inbound = transfer_.in.Hold(lane, std::move(frame))};
  RINGWAY_REACHED(kMessageWithoutRoom);
  early->refused = true;
  return Judged{};
}

bool MessageFrames::IsAwaited(const transfer::FramesIn::Frame& frame) const {
  if (!frame.held) return transfer_.attempts.IsLive(frame.attempt);
  const MessageName name = NameOf(frame.held->from, frame.header);
  const EarlyMessage* early = table_.FindEarly(name);
  return !table_.IsOver(name) && (early == nullptr || !early->failed);
}

void MessageFrames::OnPayload(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload) {
  if (!frame.held) {
    const transfer::Attempt& attempt = transfer_.in.Accept(frame, payload);
    return NoteComplete(*table_.Find(attempt.name.message()));
  }
  const SegmentHeader& header = frame.header;
  const MessageName name = NameOf(frame.held->from, header);
  Message* message = table_.Find(name);
  if (message != nullptr && message->attempt.live() && header.epoch == ctx_.view().epoch)
    return FeedOne(*message, *frame.held);
  EarlyMessage* early = table_.MakeEarly(name);
  if (early == nullptr || early->epoch > header.epoch) return;
  early->epoch = header.epoch;
  early->frames.emplace(header.segment, std::move(*frame.held));
}

// Drops frames that no sender which keeps to the grid sends.
void MessageFrames::FeedOne(Message& message, const transfer::EarlyFrame& frame) {
  if (!Agrees(message, frame.header)) return;
  message.begun = true;
  const Result<bool> fed = transfer::FramesIn::Feed(message.attempt, frame.header, kSender, *frame.payload);
  if (fed.ok() && fed.value()) NoteComplete(message);
}

void MessageFrames::NoteComplete(const Message& message) {
  if (message.attempt.executor().complete() || RINGWAY_MUTANT(kReceiveHalf)) complete_.push_back(message.name);
}

}  // namespace ringway::agreement
