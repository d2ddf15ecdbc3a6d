#include "daemon/agreement/message_frames.h"

#include <cstring>
#include <limits>
#include <memory>

#include "proto/check.h"
#include "proto/collective/grid.h"
#include "proto/collective/schedule.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

using collective::Executor;

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
  table_.SetAttempt(message, attempts_.Begin());
  message.begun = false;
  // Both ends make the same one, from which they cut the same grid.
  const Descriptor descriptor{.kind = OpKind::kSend,
                              .dtype = message.submission.descriptor.dtype,
                              .schedule = Algorithm::kDirect,
                              .count = count,
                              .layout = message.name.stream.tag};
  const bool sends = message.sends();
  const buffers::OpBuffers& buffers = *message.submission.buffers;
  message.executor =
      std::make_unique<Executor>(ScheduleOf(sends), collective::ExecutorOptions{
                                                        .descriptor = descriptor,
                                                        .shape = {.count = count,
                                                                  .input = sends ? all : collective::Range{},
                                                                  .output = sends ? collective::Range{} : all},
                                                        .world_size = 2,
                                                        .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
                                                        .input = buffers.input(),
                                                        .output = buffers.output(),
                                                        .input_bytes_ready = sends ? buffers.input_ready() : 0,
                                                        .stamp = {},
                                                        .self = sends ? kSender : kReceiver,
                                                    });
}

void MessageFrames::Stop(Message& message) {
  if (message.executor == nullptr) return;
  RINGWAY_REACHED_IF(ctx_.views.frozen(), kMessageStops);
  attempts_.End(message.attempt);
  message.executor.reset();
  (void)Release(message);
  table_.SetAttempt(message, 0);
  ++message.retries;
}

// More than all of its frames can cost where they are held.
std::uint64_t MessageFrames::EagerCost(const Message& message) {
  const std::uint64_t segments = message.bytes() / (collective::kSegmentBytesMin / 2) + 2;
  return message.bytes() + segments * EarlyFrames::kOverheadBytes;
}

bool MessageFrames::MayGoAhead(const Message& message) const {
  if (message.bytes() > ctx_.view().plan.small_bytes_max) return false;
  const auto ahead = ahead_.find(message.other());
  return (ahead == ahead_.end() ? 0 : ahead->second) + EagerCost(message) <= EagerBytesMax();
}

void MessageFrames::Charge(Message& message) {
  message.eager_cost = EagerCost(message);
  ahead_[message.other()] += message.eager_cost;
}

bool MessageFrames::Release(Message& message) {
  const std::uint64_t cost = std::exchange(message.eager_cost, 0);
  if (cost == 0) return false;
  const auto ahead = ahead_.find(message.other());
  ahead->second -= cost;
  if (ahead->second == 0) ahead_.erase(ahead);
  return true;
}

bool MessageFrames::Feed(Message& message) {
  EarlyMessage* early = table_.FindEarly(message.name);
  if (early == nullptr || early->epoch > ctx_.view().epoch) return false;
  const std::optional<EarlyMessage> taken = table_.TakeEarly(message.name);
  bool refused = taken->refused;
  for (const auto& [segment, frame] : taken->frames) {
    TakeWhole(message, frame, *frame.payload);
    table_.Unreserve(frame);
  }
  return refused;
}

void MessageFrames::ResendAll(Message& message) {
  for (std::uint32_t segment = 0; segment < message.executor->grid().Segments(0); ++segment)
    message.executor->SendAgain(kReceiver, 0, 0, segment);
}

// ---------------------------------------------------------------------------------------------- frames in

Result<MessageFrames::Judged> MessageFrames::OnHeader(PeerId from, const SegmentHeader& header) {
  const std::uint64_t tag = header.descriptor.layout;
  if (tag > std::numeric_limits<std::uint32_t>::max() || header.op.channel.value >= abi::kChannelCountMax ||
      header.op.seq == 0) {
    return Status(Code::kProtocol, "segment of a message that no trainer can have submitted");
  }
  const MessageName name{{from, ctx_.self, header.op.channel, static_cast<std::uint32_t>(tag)}, header.op.seq};
  if (table_.IsOver(name)) return Judged{};
  if (header.epoch > ctx_.view().epoch) return Hold(from, header, name);
  if (!ctx_.view().Contains(from)) return Status(Code::kProtocol, "segment from a peer that is no member of its view");
  Message* message = table_.Find(name);
  if (message == nullptr || !message->executor) return Hold(from, header, name);
  return Claim(*message, header);
}

bool MessageFrames::Agrees(const Message& message, const SegmentHeader& header) {
  const Descriptor& ours = message.submission.descriptor;
  if (header.descriptor.dtype == ours.dtype && header.descriptor.count == ours.count) return true;
  differences_.push_back({message.name, header.descriptor});
  return false;
}

Result<MessageFrames::Judged> MessageFrames::Claim(Message& message, const SegmentHeader& header) {
  if (!Agrees(message, header)) return Judged{.inbound = {}, .place = {}, .differs = true};
  message.begun = true;
  Result<Executor::Claim> claim = message.executor->Take(header, kSender);
  if (!claim.ok()) return claim.status();
  if (claim.value().skipped) return Judged{};
  guard_.ChooseTarget(UseOf(message), claim.value());
  Inbound inbound;
  inbound.kind = claim.value().direct != nullptr ? Inbound::Kind::kDirect : Inbound::Kind::kScratch;
  inbound.target = claim.value().direct;
  inbound.attempt = message.attempt;
  if (inbound.target != nullptr) inbound.keep = message.submission.buffers;
  return Judged{.inbound = std::move(inbound),
                .place = Place{.name = message.name, .attempt = message.attempt, .claim = claim.value(), .held = {}}};
}

Result<MessageFrames::Judged> MessageFrames::Hold(PeerId from, const SegmentHeader& header, const MessageName& name) {
  if (!table_.MoveTo(from, header.epoch)) return Judged{};
  EarlyMessage* early = table_.MakeEarly(name);
  if (early == nullptr) return Status(Code::kProtocol, "more messages in advance than a peer may send");
  if (early->failed) return Judged{};
  if (early->epoch < header.epoch) {
    table_.DropFrames(*early);
    early->refused = false;
    early->epoch = header.epoch;
  }
  if (early->frames.contains(header.segment)) return Judged{};
  if (table_.held_bytes(from) + EarlyFrames::Cost(header) > EagerBytesMax() + kPayloadBytesMax)
    return Status(Code::kProtocol, "more bytes of messages in advance than the plan allows");
  EarlyFrame frame = table_.Reserve(from, header);
  RINGWAY_REACHED_IF(frame.payload != nullptr, kMessageHeld);
  if (frame.payload == nullptr) {
    RINGWAY_REACHED(kMessageWithoutRoom);
    early->refused = true;
    return Judged{};
  }
  Inbound inbound;
  inbound.kind = Inbound::Kind::kDirect;
  inbound.target = frame.payload->data();
  inbound.keep = frame.payload;
  return Judged{.inbound = std::move(inbound),
                .place = Place{.name = name, .attempt = 0, .claim = {}, .held = std::move(frame)}};
}

bool MessageFrames::IsAwaited(const Place& place) {
  if (!place.held) return attempts_.IsLive(place.attempt);
  const EarlyMessage* early = table_.FindEarly(place.name);
  return !table_.IsOver(place.name) && (early == nullptr || !early->failed);
}

void MessageFrames::OnFailedPayload(const Place& place) {
  const Message* message = place.held ? nullptr : table_.FindAttempt(place.attempt);
  if (message != nullptr) guard_.OnFailedPayload(UseOf(*message), place.claim);
}

void MessageFrames::GiveUp(const Place& place) {
  if (place.held) return table_.Unreserve(*place.held);
  Message* message = table_.FindAttempt(place.attempt);
  if (message != nullptr) message->executor->Release(place.claim);
}

void MessageFrames::Accept(const Place& place, const SegmentHeader& header, std::span<const std::byte> payload) {
  if (!place.held) {
    Message* message = table_.FindAttempt(place.attempt);
    RINGWAY_CHECK(message != nullptr && message->executor != nullptr);
    if (guard_.HasChanged(UseOf(*message), place.claim)) guard_.OnModified(ToString(place.name), "output");
    message->executor->Accept(place.claim, header, payload);
    return NoteComplete(*message);
  }
  Message* message = table_.Find(place.name);
  const bool runs = message != nullptr && message->executor != nullptr && header.epoch == ctx_.view().epoch;
  EarlyMessage* early = runs ? nullptr : table_.MakeEarly(place.name);
  if (early != nullptr && early->epoch <= header.epoch) {
    early->epoch = header.epoch;
    if (early->frames.emplace(header.segment, *place.held).second) return;
  }
  if (runs) TakeWhole(*message, *place.held, payload);
  table_.Unreserve(*place.held);
}

// What no sender that keeps to the grid sends is dropped.
void MessageFrames::TakeWhole(Message& message, const EarlyFrame& frame, std::span<const std::byte> payload) {
  if (!Agrees(message, frame.header)) return;
  message.begun = true;
  const Result<Executor::Claim> claim = message.executor->Take(frame.header, kSender);
  if (!claim.ok() || claim.value().skipped) return;
  if (claim.value().direct != nullptr) std::memcpy(claim.value().direct, payload.data(), payload.size());
  message.executor->Accept(claim.value(), frame.header, payload);
  NoteComplete(message);
}

void MessageFrames::NoteComplete(const Message& message) {
  if (message.executor->complete() || RINGWAY_MUTANT(kReceiveHalf)) complete_.push_back(message.name);
}

// ---------------------------------------------------------------------------------------------- frames out

bool MessageFrames::HasWorkFor(PeerId to) const {
  const auto sending = table_.sending().find(to);
  if (sending == table_.sending().end()) return false;
  for (const MessageName& name : sending->second) {
    if (table_.Find(name)->executor->NextBytes(kReceiver)) return true;
  }
  return false;
}

bool MessageFrames::Next(PeerId to, std::uint32_t bytes_max, StreamName& last, Outbound& out, links::SentFrame& sent) {
  const auto sending = table_.sending().find(to);
  if (sending == table_.sending().end()) return false;
  const std::set<MessageName>& names = sending->second;
  auto next = names.upper_bound({last, std::numeric_limits<std::uint64_t>::max()});
  for (std::size_t seen = 0; seen < names.size(); ++seen, ++next) {
    if (next == names.end()) next = names.begin();
    Message& message = *table_.Find(*next);
    const auto ready = message.executor->PopReady(kReceiver, bytes_max);
    if (!ready) continue;
    const BufferGuard::Copy copy = guard_.CautiousCopy(UseOf(message), *ready);
    Executor::Encoded encoded = message.executor->Encode(*ready, {}, copy != nullptr ? copy->data() : nullptr);
    encoded.header.kind = SegmentKind::kMessage;
    encoded.header.epoch = ctx_.view().epoch;
    encoded.header.op = {message.name.stream.channel, message.name.seq};
    EncodeSegmentHeader(encoded.header, out.header);
    out.payload = encoded.payload;
    out.keep = copy != nullptr ? Keep(copy) : Keep(message.submission.buffers);
    sent = {.op = encoded.header.op,
            .attempt = message.attempt,
            .ready = *ready,
            .eager_cost = 0,
            .hash = encoded.header.payload_hash};
    message.wire_bytes += kSegmentHeaderBytes + encoded.payload.size();
    last = next->stream;
    return true;
  }
  return false;
}

bool MessageFrames::OnLost(const links::SentFrame& frame) {
  Message* message = table_.FindAttempt(frame.attempt);
  if (message == nullptr) return false;
  message->executor->Requeue(frame.ready);
  return true;
}

void MessageFrames::OnRefused(const links::SentFrame& frame) {
  const Message* message = table_.FindAttempt(frame.attempt);
  if (message == nullptr || !guard_.IsModified(UseOf(*message), frame)) return;
  guard_.OnModified(ToString(message->name), "input");
}

}  // namespace ringway::agreement
