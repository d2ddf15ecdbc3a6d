// The messages of a peer, sends and recvs, by stream and number; and what its partners have said of messages that its
// own trainer has not submitted yet.
//
// Bounded: streams by kStreamsMax; what a partner may say in advance by kEarlyMax; and messages that ended before the
// partner's trainer submitted them, which the partner keeps until then, by kUnsettledMax.
//
// Pure bookkeeping; point_to_point.h decides. Ownership: its.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "daemon/buffers/submission.h"
#include "daemon/transfer/attempt.h"
#include "daemon/transfer/early_frames.h"
#include "daemon/transfer/message_name.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

using transfer::MessageName;
using transfer::StreamName;

// The count and dtype that the receiver has submitted, in the view in force.
struct MessageOffer {
  std::uint64_t count = 0;
  DType dtype = DType::kU8;
};

// One that this peer's trainer has submitted, and whose outcome is not reported yet.
struct Message {
  MessageName name;
  buffers::Submission submission;
  std::optional<TimePoint> deadline;
  TimePoint since{};
  TimePoint staged_at{};  // when the last of its input came
  transfer::Attempt attempt;
  bool asked = false;                 // sender: the receiver is asked to end it
  std::optional<MessageOffer> ready;  // sender: the receiver has submitted it, and said so in this view
  bool wanted = false;                // sender: the same, in any view
  bool begun = false;                 // receiver: some of it has come in this attempt
  std::uint32_t retries = 0;

  bool sends() const { return submission.descriptor.kind == OpKind::kSend; }
  PeerId other() const { return submission.root(); }
  std::uint64_t bytes() const { return submission.descriptor.count * SizeOf(submission.descriptor.dtype); }
  bool is_staged() const { return !sends() || submission.buffers->input_ready() >= bytes(); }
  // Returns whether it waits for the other trainer to submit its end, as far as is known here.
  bool awaits_other() const { return sends() ? !wanted : !begun; }
  // Returns whether it can do nothing else meanwhile: a small send goes ahead, and may be forgotten.
  bool needs_other() const { return awaits_other() && attempt.eager_bytes.empty(); }
  // Returns whether it needs time alone, for both ends are submitted and its input is there.
  bool runs() const { return !awaits_other() && is_staged(); }
  // Returns whether its trainer has copied no more of its input for so long.
  bool stalls(Duration limit, TimePoint now) const { return !is_staged() && now - staged_at > limit; }
};

// A message that the trainer here has not submitted yet; or, for a submitted one, its frames of later views.
struct EarlyMessage {
  std::optional<MessageOffer> ready;
  bool wanted = false;                                   // sender: the receiver has submitted it
  std::optional<Status> failed;                          // how it has ended
  Epoch epoch;                                           // receiver: of the frames
  std::map<std::uint32_t, transfer::EarlyFrame> frames;  // by segment
  bool refused = false;                                  // there was no room for one of them
};

class MessageTable {
 public:
  static constexpr std::size_t kStreamsMax = 1 << 16;
  static constexpr std::size_t kEarlyMax = 2048;        // a partner
  static constexpr std::uint64_t kUnsettledMax = 1024;  // a partner

  explicit MessageTable(PeerId self) : self_(self) {}
  MessageTable(const MessageTable&) = delete;
  MessageTable& operator=(const MessageTable&) = delete;

  // ---- submitted here
  // kResourceExhausted where the partner has to catch up, kInvalidArgument where there are too many streams.
  Status RoomFor(const buffers::Submission& submission) const;
  // It gets the next number of its stream. REQUIRES: RoomFor, a message.
  Message& Add(buffers::Submission submission);
  Message* Find(const MessageName& name);
  Message* FindToken(std::uint64_t token);
  void Erase(const MessageName& name);
  // It was submitted here, and has ended.
  bool IsOver(const MessageName& name) const;
  // Returns how many messages have been submitted.
  std::uint64_t submitted() const { return submitted_; }
  std::map<MessageName, Message>& open() { return open_; }
  const std::map<MessageName, Message>& open() const { return open_; }

  // ---- not submitted here
  EarlyMessage* FindEarly(const MessageName& name);
  // Null if the partner has said too much. REQUIRES: it is not submitted.
  EarlyMessage* MakeEarly(const MessageName& name);
  std::optional<EarlyMessage> TakeEarly(const MessageName& name);
  void ForgetEarly(const MessageName& name);
  // Nothing of an earlier view is ready; frames of views below `epoch` are dropped.
  void EndViewsBelow(Epoch epoch);
  // The same of one partner, that has sent a frame of `epoch`. Returns false if newer ones have come.
  bool MoveTo(PeerId partner, Epoch epoch);
  // A partner is no member any more.
  void ForgetPeer(PeerId partner);

  // ---- ended here before the partner's trainer has submitted them
  void AddUnsettled(PeerId partner) { ++unsettled_[partner]; }
  void Settle(PeerId partner);

  PeerId PartnerOf(const StreamName& stream) const { return stream.from == self_ ? stream.to : stream.from; }

 private:
  void EraseEarly(std::map<MessageName, EarlyMessage>::iterator early);

  const PeerId self_;
  std::uint64_t submitted_ = 0;
  std::map<StreamName, std::uint64_t> next_;  // number of the next submission here; absent: 1
  std::map<MessageName, Message> open_;
  std::map<std::uint64_t, MessageName> tokens_;
  std::map<MessageName, EarlyMessage> early_;
  std::map<PeerId, std::size_t> early_of_;
  std::map<PeerId, Epoch> frames_of_;  // the newest view of which a partner has sent frames in advance
  std::map<PeerId, std::uint64_t> unsettled_;
};

}  // namespace ringway::agreement
