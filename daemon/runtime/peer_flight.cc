#include "daemon/runtime/peer_flight.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ringway::daemon {
namespace {

using flight::Kind;
using flight::Record;

std::uint32_t Us(Duration time) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time.count(), 0, std::numeric_limits<std::uint32_t>::max()));
}

TimePoint AtOf(const Record& record) { return TimePoint(Duration(record.at_us)); }

void SetPosition(Record& record, const SegmentHeader& header) {
  record.epoch = header.epoch.value;
  record.channel = header.op.channel.value;
  record.seq = header.op.seq;
  record.step = header.step;
  record.chunk = header.chunk;
  record.bytes = header.payload_bytes;
  record.segments = 1;
  if (header.kind != SegmentKind::kMessage) return;
  record.flags |= flight::kMessage;
  record.tag = static_cast<std::uint32_t>(header.descriptor.layout);
}

// Ready, Done and others: what has epoch, channel and number of an operation.
template <typename Message>
void SetOperation(Record& record, const Message& message) {
  record.epoch = message.epoch();
  record.channel = message.channel();
  record.seq = message.seq();
}

}  // namespace

Record PeerFlight::At(TimePoint now, Kind kind) const {
  Record record{};
  record.kind = kind;
  record.self = self_.value;
  record.at_us = now.time_since_epoch().count();
  return record;
}

void PeerFlight::OnView(const agreement::View& view) {
  if (!records()) return;
  for (const control::PeerInfo& info : view.infos)
    deck_->recorder().AddName(PeerId(info.peer_id()), group_, info.name());
  Record record = Now(Kind::kView);
  record.epoch = view.epoch.value;
  record.segments = view.world_size();
  Add(record);
}

void PeerFlight::OnSubmit(const agreement::Submission& submission, std::uint64_t seq, TimePoint now) {
  const Descriptor& descriptor = submission.descriptor;
  if (!records() || IsMessage(descriptor.kind)) return;  // a message's number is its stream's
  Record record = At(now, Kind::kSubmitted);
  record.channel = submission.channel().value;
  record.seq = seq;
  record.bytes = descriptor.count * SizeOf(descriptor.dtype);
  record.detail = static_cast<std::uint16_t>(descriptor.kind);
  Add(record);
}

void PeerFlight::OnHeader(const links::LinkId& lane, const SegmentHeader& header, const links::Inbound& inbound) {
  if (!records()) return;
  Incoming& incoming = incoming_[lane];
  incoming.is_open = inbound.kind != links::Inbound::Kind::kDiscard;
  if (!incoming.is_open) return;
  incoming.part = Now(Kind::kIn);
  incoming.part.other = lane.other.value;
  incoming.part.flags = inbound.attempt == 0 ? flight::kHeld : inbound.adds ? flight::kSummed : flight::kCopied;
  SetPosition(incoming.part, header);
}

void PeerFlight::OnPayload(const links::LinkId& lane, TimePoint begin) {
  if (!records()) return;
  const auto found = incoming_.find(lane);
  if (found == incoming_.end() || !std::exchange(found->second.is_open, false)) return;
  Record& part = found->second.part;
  if (begin != TimePoint()) {
    const TimePoint now = clock_.Now();
    part.took_us = Us(now - AtOf(part));
    part.work_us = Us(now - begin);
  }
  deck_->recorder().AddPart(part);
}

void PeerFlight::OnSent(PeerId to, const links::Outbound& outbound, TimePoint now) {
  if (!records()) return;
  const Result<SegmentHeader> header = DecodeSegmentHeader(outbound.header);
  if (!header.ok()) return;
  Record record = At(now, Kind::kOut);
  record.other = to.value;
  SetPosition(record, header.value());
  if ((record.flags & flight::kMessage) != 0) record.flags |= flight::kSends;
  deck_->recorder().AddPart(record);
}

void PeerFlight::OnWork(TimePoint begin) {
  if (!records()) return;
  Record record = Now(Kind::kWork);
  record.work_us = record.took_us = Us(AtOf(record) - begin);
  record.at_us = begin.time_since_epoch().count();
  record.segments = 1;
  deck_->recorder().AddPart(record);
}

void PeerFlight::OnMessage(PeerId other, const control::PeerMessage& message, bool is_sent) {
  if (!records()) return;
  Record record{};
  if (message.has_ready()) {
    record = Now(is_sent ? Kind::kReadyOut : Kind::kReadyIn);
    SetOperation(record, message.ready());
  } else if (message.has_done()) {
    record = Now(is_sent ? Kind::kDoneOut : Kind::kDoneIn);
    SetOperation(record, message.done());
  } else if (message.has_inputs()) {
    record = Now(Kind::kInputs);
    SetOperation(record, message.inputs().op());
  } else {
    return;
  }
  record.other = other.value;
  Add(record);
}

// Members may send aborts of whatever epochs: what counts is whether this peer has frozen, and which peers it has lost.
void PeerFlight::OnReport(const control::Report& report) {
  const Epoch epoch(report.epoch());
  const bool is_frozen = epoch != Epoch() && report.stop() >= report.epoch() && !report.leaving();
  if (!records() || !is_frozen) return;
  const bool is_new = std::exchange(aborted_, epoch) != epoch;
  if (is_new) lost_.clear();
  Record record = Now(Kind::kAbort);
  record.epoch = epoch.value;
  for (const std::uint64_t lost : report.lost()) {
    if (!lost_.insert(lost).second) continue;
    record.other = lost;
    Add(record);
  }
  if (!is_new) return;
  if (lost_.empty()) Add(record);
  deck_->Dump(DumpCause::kAbort, group_, AtOf(record));
}

void PeerFlight::OnComplete(const agreement::Complete& complete, TimePoint now) {
  if (!records()) return;
  Record record = At(now, Kind::kReported);
  record.epoch = complete.epoch().value;
  record.channel = complete.channel.value;
  record.seq = complete.op().seq;
  record.took_us = Us(AtOf(record) - complete.submitted);
  record.detail = static_cast<std::uint16_t>(complete.outcome.code);
  if (IsMessage(complete.collective)) {
    record.other = complete.other.value;
    record.tag = complete.tag;
    record.flags = flight::kMessage;
    if (complete.collective == OpKind::kSend) record.flags |= flight::kSends;
  }
  Add(record);
}

void PeerFlight::OnTick(const agreement::Wait& wait, std::uint64_t ops_stuck) {
  if (!records()) return;
  if (std::exchange(stuck_, ops_stuck) < ops_stuck) {
    const Record record = Now(Kind::kStuck);
    Add(record);
    deck_->Dump(DumpCause::kStuck, group_, AtOf(record));
  }
  const std::string text = wait.text();
  if (std::exchange(waited_, text) == text || wait.what.empty()) return;
  Record record = Now(Kind::kWaits);
  if (wait.op) {
    record.channel = wait.op->channel.value;
    record.seq = wait.op->seq;
  } else {
    record.flags = flight::kMessage;
  }
  record.took_us = Us(wait.age);
  for (const PeerId on : wait.on) {
    record.other = on.value;
    Add(record);
  }
  if (wait.on.empty()) Add(record);
}

}  // namespace ringway::daemon
