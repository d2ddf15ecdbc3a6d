#include "daemon/agreement/message_table.h"

#include <utility>

#include "proto/check.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- submitted here

namespace {

StreamName StreamOf(PeerId self, const buffers::Submission& submission) {
  const bool sends = submission.descriptor.kind == OpKind::kSend;
  return {.from = sends ? self : submission.root(),
          .to = sends ? submission.root() : self,
          .channel = submission.channel(),
          .tag = submission.spec.tag};
}

}  // namespace

Status MessageTable::RoomFor(const buffers::Submission& submission) const {
  const auto unsettled = unsettled_.find(submission.root());
  if (unsettled != unsettled_.end() && unsettled->second >= kUnsettledMax) {
    return {
        Code::kResourceExhausted,
        std::to_string(kUnsettledMax) + " messages ended before the other rank had submitted them: it has to catch up"};
  }
  if (next_.size() >= kStreamsMax && !next_.contains(StreamOf(self_, submission))) {
    return {Code::kInvalidArgument, "sends and recvs of this session have used " + std::to_string(kStreamsMax) +
                                        " channels and tags, which are kept as long as both ranks are members: use "
                                        "the same tags again"};
  }
  return Status::Ok();
}

Message& MessageTable::Add(buffers::Submission submission) {
  const StreamName stream = StreamOf(self_, submission);
  std::uint64_t& next = next_.try_emplace(stream, 1).first->second;
  const MessageName name{stream, next++};
  ++submitted_;
  Message& message = open_[name];
  message.name = name;
  message.attempt.name = {.kind = SegmentKind::kMessage, .op = {stream.channel, name.seq}, .stream = stream};
  message.attempt.buffers = submission.buffers;
  message.submission = std::move(submission);
  tokens_[message.submission.token] = name;
  return message;
}

Message* MessageTable::Find(const MessageName& name) {
  const auto found = open_.find(name);
  return found == open_.end() ? nullptr : &found->second;
}

Message* MessageTable::FindToken(std::uint64_t token) {
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? nullptr : Find(found->second);
}

void MessageTable::Erase(const MessageName& name) {
  const auto found = open_.find(name);
  RINGWAY_CHECK(found != open_.end());
  const auto token = tokens_.find(found->second.submission.token);
  if (token != tokens_.end() && token->second == name) tokens_.erase(token);
  open_.erase(found);
}

bool MessageTable::IsOver(const MessageName& name) const {
  const auto next = next_.find(name.stream);
  return next != next_.end() && name.seq < next->second && !open_.contains(name);
}

// ---------------------------------------------------------------------------------------------- not submitted here

EarlyMessage* MessageTable::FindEarly(const MessageName& name) {
  const auto found = early_.find(name);
  return found == early_.end() ? nullptr : &found->second;
}

EarlyMessage* MessageTable::MakeEarly(const MessageName& name) {
  if (EarlyMessage* known = FindEarly(name)) return known;
  std::size_t& count = early_of_[PartnerOf(name.stream)];
  if (count >= kEarlyMax) return nullptr;
  ++count;
  return &early_[name];
}

std::optional<EarlyMessage> MessageTable::TakeEarly(const MessageName& name) {
  const auto found = early_.find(name);
  if (found == early_.end()) return std::nullopt;
  std::optional<EarlyMessage> early = std::move(found->second);
  EraseEarly(found);
  return early;
}

void MessageTable::EraseEarly(std::map<MessageName, EarlyMessage>::iterator early) {
  const auto count = early_of_.find(PartnerOf(early->first.stream));
  if (--count->second == 0) early_of_.erase(count);
  early_.erase(early);
}

void MessageTable::ForgetEarly(const MessageName& name) {
  if (const auto found = early_.find(name); found != early_.end()) EraseEarly(found);
}

void MessageTable::EndViewsBelow(Epoch epoch) {
  for (auto it = early_.begin(); it != early_.end();) {
    const auto early = it++;
    early->second.ready.reset();
    if (early->second.epoch < epoch) {
      early->second.frames.clear();
      early->second.refused = false;
    }
    const EarlyMessage& left = early->second;
    const bool is_empty = left.frames.empty() && !left.refused && !left.failed && !left.wanted;
    if (is_empty) EraseEarly(early);
  }
}

bool MessageTable::MoveTo(PeerId partner, Epoch epoch) {
  Epoch& newest = frames_of_[partner];
  if (epoch < newest) return false;
  if (epoch == newest) return true;
  newest = epoch;
  for (auto& [name, early] : early_) {
    if (name.stream.from != partner || early.epoch >= epoch) continue;
    early.frames.clear();
    early.refused = false;
  }
  return true;
}

void MessageTable::ForgetPeer(PeerId partner) {
  for (auto it = early_.begin(); it != early_.end();) {
    const auto early = it++;
    if (PartnerOf(early->first.stream) == partner) EraseEarly(early);
  }
  std::erase_if(next_, [&](const auto& next) { return PartnerOf(next.first) == partner; });
  frames_of_.erase(partner);
  unsettled_.erase(partner);
}

void MessageTable::Settle(PeerId partner) {
  const auto found = unsettled_.find(partner);
  if (found == unsettled_.end()) return;
  if (--found->second == 0) unsettled_.erase(found);
}

}  // namespace ringway::agreement
