// The attempts of messages, and what becomes of their frames that arrive.
//
//   sender    ready, or small and within the window --Launch--> its segments are queued; lost ones are resent
//   receiver  header  of a message that runs here                     its attempt claims the position
//                     of one not submitted here, or of a later view   held, or refused where there is no room
//                     of one that is over                             discarded, unjudged
//
// An attempt is one over two ranks, kSender and kReceiver, whatever their ranks in the view are. So segments,
// checksums, staged inputs and lost lanes are as in a collective.
//
// Before its receiver has submitted it only a small message is sent, and of those to one receiver a window's bytes
// (EagerBytesMax); larger ones wait, so what nobody receives costs its receiver no more than that.
//
// Ownership: the Peer's. What has come whole, or differs from what was submitted here, point_to_point.h takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/judged.h"
#include "daemon/agreement/message_table.h"
#include "daemon/transfer/eager_window.h"
#include "daemon/transfer/transfer.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class MessageFrames {
 public:
  static constexpr Rank kSender{0};
  static constexpr Rank kReceiver = transfer::MessageQueue::kReceiver;

  // All outlive it.
  MessageFrames(Context& ctx, MessageTable& table, transfer::Transfer& transfer)
      : ctx_(ctx), table_(table), transfer_(transfer) {}
  MessageFrames(const MessageFrames&) = delete;
  MessageFrames& operator=(const MessageFrames&) = delete;

  // ---- attempts
  // REQUIRES: the view runs, and has both ends.
  void Launch(Message& message);
  void Stop(Message& message);
  // Returns whether a send may begin before its receiver has submitted it.
  bool MayGoAhead(const Message& message) const;
  // Charges a message that goes ahead to the window, until its receiver has submitted it.
  void Charge(Message& message);
  // Returns whether there is room again.
  bool Release(Message& message);
  // Feeds what came before it to a message that runs here now. Returns whether some of it found no room.
  [[nodiscard]] bool Feed(Message& message);
  void ResendAll(Message& message);

  // ---- frames in
  // REQUIRES: its epoch is not over.
  Result<Judged> OnHeader(const LinkId& lane, const SegmentHeader& header);
  bool IsAwaited(const transfer::FramesIn::Frame& frame) const;
  // Its payload is whole and intact; `frame` is used up.
  void OnPayload(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload);

  // ---- outcomes
  struct Difference {
    MessageName name;
    Descriptor theirs;
  };
  std::vector<MessageName> TakeComplete() { return std::exchange(complete_, {}); }
  std::vector<Difference> TakeDifferences() { return std::exchange(differences_, {}); }

 private:
  std::uint64_t EagerBytesMax() const { return ctx_.view().plan.eager_bytes_max / 4; }
  static std::uint64_t EagerCost(const Message& message);
  MessageName NameOf(PeerId from, const SegmentHeader& header) const {
    const auto tag = static_cast<std::uint32_t>(header.descriptor.layout);
    return {{from, ctx_.self, header.op.channel, tag}, header.op.seq};
  }
  bool Agrees(const Message& message, const SegmentHeader& header);
  Result<Judged> Hold(const LinkId& lane, const SegmentHeader& header, const MessageName& name);
  void FeedOne(Message& message, const transfer::EarlyFrame& frame);
  void NoteComplete(const Message& message);

  Context& ctx_;
  MessageTable& table_;
  transfer::Transfer& transfer_;
  transfer::EagerWindow ahead_;  // sent to a receiver that has not submitted it
  std::vector<MessageName> complete_;
  std::vector<Difference> differences_;
};

}  // namespace ringway::agreement
