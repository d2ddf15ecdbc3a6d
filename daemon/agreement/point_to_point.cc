#include "daemon/agreement/point_to_point.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

using control::PointToPoint_Step;

control::PointToPoint Saying(PointToPoint_Step step) {
  control::PointToPoint said;
  said.set_step(step);
  return said;
}

std::vector<MessageName> NamesOf(const MessageTable& table) {
  std::vector<MessageName> names;
  for (const auto& [name, message] : table.open()) names.push_back(name);
  return names;
}

}  // namespace

// ---------------------------------------------------------------------------------------------- trainer

Status PointToPoint::Submit(buffers::Submission submission) {
  if (!membership_.leaves_at_once().ok()) return membership_.leaves_at_once();
  if (membership_.leaving() || ctx_.views.ended())
    return {Code::kShuttingDown, "this peer is leaving its group and takes no new operations"};
  const PeerId other = submission.root();
  Status room = table_.RoomFor(submission);
  RINGWAY_REACHED_IF(room.code() == Code::kResourceExhausted, kMessageTooFarAhead);
  if (!room.ok()) return room;
  if (!ctx_.view().Contains(other)) {  // it takes no number: what is left of the stream is forgotten
    Message unnumbered;
    unnumbered.name.stream = {ctx_.self, other, submission.channel(), submission.spec.tag};
    unnumbered.submission = std::move(submission);
    unnumbered.since = ctx_.now;
    Report(unnumbered, Code::kPeerLost, ctx_.NameOf(other) + ", its other end, has left the group");
    return Status::Ok();
  }
  Message& message = table_.Add(std::move(submission));
  message.since = message.staged_at = ctx_.now;
  if (message.submission.time_limit > Duration::zero()) message.deadline = ctx_.now + message.submission.time_limit;
  EarlyMessage* early = table_.FindEarly(message.name);
  if (early != nullptr && early->failed) {
    RINGWAY_REACHED(kMessageFailsEarly);
    const Status failed = *early->failed;
    Say(other, message.name, Saying(control::PointToPoint::STEP_SETTLED));
    End(message, failed.code(), failed.text());
    return Status::Ok();
  }
  if (early != nullptr) {
    message.ready = early->ready;
    message.wanted = early->wanted;
  }
  if (ctx_.views.running()) Start(message);
  return Status::Ok();
}

void PointToPoint::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  Message* message = table_.FindToken(token);
  if (message == nullptr || !message->submission.buffers->Grow(input_bytes_ready)) return;
  message->staged_at = ctx_.now;
  if (message->attempt.live()) message->attempt.executor().InputReady(message->submission.buffers->input_ready());
}

void PointToPoint::Cancel(std::uint64_t token) {
  Message* message = table_.FindToken(token);
  if (message == nullptr || ctx_.views.ended()) return;
  if (!message->sends()) return Decide(*message, Code::kCancelled, Why(ctx_.self, Code::kCancelled, message->name));
  Ask(*message, Code::kCancelled);
  if (RINGWAY_MUTANT(kSenderDecides)) End(*message, Code::kCancelled, "decided alone");
}

void PointToPoint::SetDeadline(std::uint64_t token, Duration after) {
  if (Message* message = table_.FindToken(token)) message->deadline = ctx_.now + after;
}

// ---------------------------------------------------------------------------------------------- attempts

void PointToPoint::Start(Message& message) {
  if (message.attempt.live() || !ctx_.view().Contains(message.other())) return;
  if (message.sends()) {
    if (message.ready ? !Agrees(message) : !frames_.MayGoAhead(message)) return;
    frames_.Launch(message);
    RINGWAY_REACHED_IF(!message.ready, kMessageGoesAhead);
    if (!message.ready) frames_.Charge(message);
    return;
  }
  const bool retried = message.retries > 0;
  frames_.Launch(message);
  const bool refused = frames_.Feed(message);
  if (message.attempt.executor().complete() || (retried && RINGWAY_MUTANT(kReadyOnce))) return;  // Settle decides it
  control::PointToPoint ready = Saying(control::PointToPoint::STEP_READY);
  ready.set_epoch(ctx_.view().epoch.value);
  ready.set_dtype(static_cast<std::uint32_t>(message.submission.descriptor.dtype));
  ready.set_count(message.submission.descriptor.count);
  ready.set_resend(refused);
  Say(message.other(), message.name, std::move(ready));
}

// Where the two ends differ the receiver is asked to say so. REQUIRES: it is ready.
bool PointToPoint::Agrees(Message& message) {
  const Descriptor& ours = message.submission.descriptor;
  if (message.ready->count == ours.count && message.ready->dtype == ours.dtype) return true;
  Ask(message, Code::kMismatch);
  return false;
}

// Small ones, for which there is room again.
void PointToPoint::StartWaiting(PeerId receiver) {
  const StreamName first{.from = ctx_.self, .to = receiver, .channel = {}, .tag = 0};
  for (auto it = table_.open().lower_bound({first, 0}); it != table_.open().end(); ++it) {
    if (it->first.stream.from != ctx_.self || it->first.stream.to != receiver) break;
    Start(it->second);
  }
}

void PointToPoint::Settle() {
  if (!ctx_.views.running()) return;
  if (std::exchange(restarts_, false)) {
    for (auto& [name, message] : table_.open()) Start(message);
  }
  for (const MessageFrames::Difference& difference : frames_.TakeDifferences()) {
    if (Message* message = table_.Find(difference.name)) {
      const Descriptor& theirs = difference.theirs;
      Decide(*message, Code::kMismatch, Differs(*message, theirs.count, theirs.dtype));
    }
  }
  for (const MessageName& name : frames_.TakeComplete()) {
    Message* message = table_.Find(name);
    if (message == nullptr || !message->attempt.live()) continue;
    if (message->attempt.executor().complete() || RINGWAY_MUTANT(kReceiveHalf)) Decide(*message, Code::kOk, "");
  }
}

void PointToPoint::Tick() {
  std::vector<MessageName> overdue;
  for (const auto& [name, message] : table_.open()) {
    if (message.deadline && ctx_.now >= *message.deadline && !message.asked) overdue.push_back(name);
  }
  for (const MessageName& name : overdue) {
    Message& message = *table_.Find(name);
    if (message.sends()) {
      Ask(message, Code::kDeadline);
    } else {
      Decide(message, Code::kDeadline, Why(ctx_.self, Code::kDeadline, name));
    }
  }
}

bool PointToPoint::moves_data() const {
  return std::any_of(table_.open().begin(), table_.open().end(), [](const auto& open) {
    const Message& message = open.second;
    return message.attempt.live() && (message.sends() || message.begun);
  });
}

bool PointToPoint::HasToFinish() const {
  const auto is_wanted = [](const auto& open) { return open.second.sends() && open.second.wanted; };
  const auto is_decided = [](const control::PeerMessage& message) {
    return message.has_point_to_point() && message.point_to_point().step() == control::PointToPoint::STEP_DECIDED;
  };
  return std::any_of(table_.open().begin(), table_.open().end(), is_wanted) ||
         std::any_of(ctx_.view().members.begin(), ctx_.view().members.end(),
                     [&](PeerId member) { return links_.Keeps(member, is_decided); });
}

// ---------------------------------------------------------------------------------------------- outcomes

void PointToPoint::Decide(Message& message, Code code, const std::string& text) {
  control::PointToPoint decided = Saying(control::PointToPoint::STEP_DECIDED);
  decided.set_code(static_cast<std::uint32_t>(code));
  decided.set_text(text);
  Say(message.other(), message.name, std::move(decided));
  if (code != Code::kOk) table_.AddUnsettled(message.other());
  End(message, code, text);
}

void PointToPoint::Ask(Message& message, Code code) {
  if (std::exchange(message.asked, true)) return;
  control::PointToPoint asked = Saying(control::PointToPoint::STEP_ASK);
  asked.set_code(static_cast<std::uint32_t>(code));
  asked.set_dtype(static_cast<std::uint32_t>(message.submission.descriptor.dtype));
  asked.set_count(message.submission.descriptor.count);
  Say(message.other(), message.name, std::move(asked));
}

void PointToPoint::Report(const Message& message, Code code, const std::string& text) {
  const bool ok = code == Code::kOk;
  ++(ok ? ctx_.counts.ops_done : ctx_.counts.ops_failed);
  Complete complete;
  complete.token = message.submission.token;
  complete.outcome.code = code;
  complete.outcome.sequence = message.name.seq;
  complete.outcome.epoch = ctx_.view().epoch.value;
  complete.outcome.wire_bytes = message.attempt.wire_bytes;
  complete.outcome.retries = message.retries;
  complete.outcome.algorithm = Algorithm::kDirect;
  if (const auto rank = ctx_.view().RankOf(ctx_.self)) complete.outcome.rank = rank->value;
  complete.text = text;
  complete.contributors = ctx_.view().members;
  complete.channel = message.name.stream.channel;
  complete.collective = message.submission.descriptor.kind;
  complete.other = message.other();
  complete.tag = message.name.stream.tag;
  complete.bytes = message.bytes();
  complete.submitted = message.since;
  ctx_.Emit(std::move(complete));
}

void PointToPoint::End(Message& message, Code code, const std::string& text) {
  const bool is_received = code == Code::kOk && !message.sends();
  if (is_received) (void)message.submission.buffers->Deliver(message.bytes(), message.bytes());
  Report(message, code, text);
  const PeerId other = message.other();
  const MessageName name = message.name;
  const bool has_room = !message.attempt.eager_bytes.empty();
  frames_.Stop(message);
  table_.Erase(name);
  table_.ForgetEarly(name);
  if (has_room && ctx_.views.running()) StartWaiting(other);
}

std::string PointToPoint::Why(PeerId whose, Code code, const MessageName& name) const {
  const std::string what = ToString(name);
  if (code == Code::kDeadline) {
    const PeerId other = whose == name.stream.from ? name.stream.to : name.stream.from;
    return what + " was not done before the deadline of " + ctx_.NameOf(whose) + ", which waited for " +
           ctx_.NameOf(other);
  }
  return what + " is cancelled by " + ctx_.NameOf(whose);
}

std::string PointToPoint::Differs(const Message& message, std::uint64_t count, DType dtype) const {
  const Descriptor& ours = message.submission.descriptor;
  return ToString(message.name) + ": " + ctx_.NameOf(message.other()) + " sends " + std::to_string(count) + " " +
         ringway::NameOf(dtype) + ", " + ctx_.NameOf(ctx_.self) + " receives " + std::to_string(ours.count) + " " +
         ringway::NameOf(ours.dtype);
}

// ---------------------------------------------------------------------------------------------- members

void PointToPoint::Say(PeerId to, const MessageName& name, control::PointToPoint said) {
  said.set_channel(name.stream.channel.value);
  said.set_tag(name.stream.tag);
  said.set_seq(name.seq);
  control::PeerMessage message;
  *message.mutable_point_to_point() = std::move(said);
  links_.Send(to, std::move(message));
}

void PointToPoint::OnMessage(PeerId from, const control::PointToPoint& said) {
  RINGWAY_REACHED(kTakePointToPoint);
  if (said.channel() >= abi::kChannelCountMax || said.seq() == 0 || said.dtype() >= kDTypeCount) return;
  const auto name = [&](PeerId sender, PeerId receiver) {
    return MessageName{{sender, receiver, ChannelId(said.channel()), said.tag()}, said.seq()};
  };
  switch (said.step()) {
    case control::PointToPoint::STEP_READY:
      return OnReady(name(ctx_.self, from), said);
    case control::PointToPoint::STEP_DECIDED:
      return OnDecided(name(ctx_.self, from), said);
    case control::PointToPoint::STEP_ASK:
      return OnAsk(name(from, ctx_.self), said);
    case control::PointToPoint::STEP_SETTLED:
      RINGWAY_REACHED(kMessageSettled);
      return table_.Settle(from);
    default:  // of a later version
      return;
  }
}

void PointToPoint::OnReady(const MessageName& name, const control::PointToPoint& said) {
  const MessageOffer offer{.count = said.count(), .dtype = static_cast<DType>(said.dtype())};
  Message* message = table_.Find(name);
  if (message == nullptr) {
    EarlyMessage* early = table_.IsOver(name) ? nullptr : table_.MakeEarly(name);
    RINGWAY_REACHED_IF(early == nullptr && !table_.IsOver(name), kMessageTooMany);
    if (early != nullptr) {
      early->ready = offer;
      early->wanted = true;
    }
    return;
  }
  RINGWAY_REACHED(kMessageReady);
  const bool went_ahead = frames_.Release(*message);  // in this attempt, and what it took is free again
  message->ready = offer;
  message->wanted = true;
  if (!message->attempt.live()) {
    Start(*message);
  } else if (Agrees(*message) && said.resend() && went_ahead) {
    RINGWAY_REACHED(kMessageSentAgain);
    frames_.ResendAll(*message);
  }
  if (went_ahead) StartWaiting(name.stream.to);
}

// A failure may be known before the send is submitted; a success, which needs it, is not.
void PointToPoint::OnDecided(const MessageName& name, const control::PointToPoint& said) {
  constexpr std::size_t kTextMax = abi::kTextBytes;
  const Code said_code = CodeFromWire(said.code());
  const bool is_outcome = said_code == Code::kOk || said_code == Code::kMismatch || said_code == Code::kCancelled ||
                          said_code == Code::kDeadline;
  const Code code = is_outcome ? said_code : Code::kProtocol;  // the others are a session's, and end it
  const std::string text = said.text().substr(0, kTextMax);
  Message* message = table_.Find(name);
  if (message == nullptr) {
    if (code == Code::kOk || table_.IsOver(name) || RINGWAY_MUTANT(kForgetDecision)) return;
    EarlyMessage* early = table_.MakeEarly(name);
    if (early != nullptr && !early->failed) early->failed = Status(code, text);
    return;
  }
  RINGWAY_REACHED(kMessageDecided);
  if (said.early() && code != Code::kOk) {
    table_.AddUnsettled(name.stream.to);
  } else if (code != Code::kOk) {
    Say(name.stream.to, name, Saying(control::PointToPoint::STEP_SETTLED));
  }
  End(*message, code, text);
}

void PointToPoint::OnAsk(const MessageName& name, const control::PointToPoint& said) {
  RINGWAY_REACHED(kMessageAsked);
  const Code asked = FailureFromWire(said.code());
  const bool differs = asked == Code::kMismatch;
  const Code code = differs || asked == Code::kDeadline ? asked : Code::kCancelled;
  if (Message* message = table_.Find(name)) {
    const std::string text =
        differs ? Differs(*message, said.count(), static_cast<DType>(said.dtype())) : Why(name.stream.from, code, name);
    return Decide(*message, code, text);
  }
  if (table_.IsOver(name) || RINGWAY_MUTANT(kForgetDecision)) return;
  EarlyMessage* early = table_.MakeEarly(name);
  if (early == nullptr || early->failed) return;
  early->frames.clear();
  early->failed = Status(code, Why(name.stream.from, code, name));
  control::PointToPoint decided = Saying(control::PointToPoint::STEP_DECIDED);
  decided.set_code(static_cast<std::uint32_t>(code));
  decided.set_text(early->failed->text());
  decided.set_early(true);
  Say(name.stream.from, name, std::move(decided));
}

// ---------------------------------------------------------------------------------------------- views

// A view that is frozen, or not the one in force any more.
void PointToPoint::OnStop() {
  for (auto& [name, message] : table_.open()) {
    frames_.Stop(message);
    message.ready.reset();
  }
  (void)frames_.TakeComplete();
  (void)frames_.TakeDifferences();
}

void PointToPoint::OnView() {
  OnStop();
  table_.EndViewsBelow(ctx_.view().epoch);
  restarts_ = true;
}

void PointToPoint::ForgetPeer(PeerId other) {
  for (const MessageName& name : NamesOf(table_)) {
    Message* message = table_.Find(name);
    if (message->other() != other || RINGWAY_MUTANT(kAwaitTheLost)) continue;
    RINGWAY_REACHED(kMessageOtherEndLost);
    End(*message, Code::kPeerLost, ToString(name) + ": " + ctx_.NameOf(other) + ", its other end, has left the group");
  }
  table_.ForgetPeer(other);
}

void PointToPoint::OnEnd(Code code, const std::string& text) {
  for (const MessageName& name : NamesOf(table_)) End(*table_.Find(name), code, text);
}

}  // namespace ringway::agreement
