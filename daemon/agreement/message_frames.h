// The data path of messages: what leaves of a send, and what becomes of what arrives.
//
//   sender    ready, or small and within the window --Launch--> an executor queues its segments; lost ones again
//   receiver  header  of a message that runs here                     its executor claims the position
//                     of one not submitted here, or of a later view   held, or refused where there is no room
//                     of one that is over                             discarded, unjudged
//
// An attempt is an executor over two ranks, kSender and kReceiver, whatever their ranks in the view are. So segments,
// checksums, staged inputs and lost lanes are as in a collective.
//
// Before its receiver has submitted it only a small message is sent, and of those to one receiver a window's bytes
// (EagerBytesMax); larger ones wait, so what nobody receives costs its receiver no more than that.
//
// Ownership: the Peer's. What has come whole, or differs from what was submitted here, point_to_point.h takes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_guard.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/message_table.h"
#include "daemon/links/lane_ledger.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class MessageFrames {
 public:
  static constexpr Rank kSender{0};
  static constexpr Rank kReceiver{1};

  // All outlive it.
  MessageFrames(Context& ctx, Attempts& attempts, BufferGuard& guard, MessageTable& table)
      : ctx_(ctx), attempts_(attempts), guard_(guard), table_(table) {}
  MessageFrames(const MessageFrames&) = delete;
  MessageFrames& operator=(const MessageFrames&) = delete;

  // ---- attempts
  // REQUIRES: the view runs, and has both ends.
  void Launch(Message& message);
  void Stop(Message& message);
  // Whether a send may begin before its receiver has submitted it.
  bool MayGoAhead(const Message& message) const;
  // What goes ahead counts until its receiver has submitted it.
  void Charge(Message& message);
  // Returns whether there is room again.
  bool Release(Message& message);
  // Of a message that runs here now: what came before. Returns whether some of it found no room.
  [[nodiscard]] bool Feed(Message& message);
  void ResendAll(Message& message);

  // ---- frames in
  struct Place {  // of a frame whose payload is being read
    MessageName name;
    std::uint64_t attempt = 0;
    collective::Executor::Claim claim;
    std::optional<EarlyFrame> held;  // else claimed
  };
  struct Judged {
    Inbound inbound;
    std::optional<Place> place;  // nothing: the payload is skipped
    bool differs = false;        // there is something to take
  };
  // REQUIRES: its epoch is not over.
  Result<Judged> OnHeader(PeerId from, const SegmentHeader& header);
  bool IsAwaited(const Place& place);
  void OnFailedPayload(const Place& place);
  // It will not come.
  void GiveUp(const Place& place);
  // It has come, and is what its header says.
  void Accept(const Place& place, const SegmentHeader& header, std::span<const std::byte> payload);

  // ---- frames out
  // The next segment for `to` that fits; false: there is none. Streams take turns: `last`, which is advanced, is whose
  // segment the lane sent last. Messages of a stream go in order.
  bool Next(PeerId to, std::uint32_t bytes_max, StreamName& last, Outbound& out, links::SentFrame& sent);
  // Returns whether it was a message's, which is sent again.
  bool OnLost(const links::SentFrame& frame);
  void OnRefused(const links::SentFrame& frame);
  bool HasWorkFor(PeerId to) const;
  template <typename F>
  void ForEachPeerWithWork(F&& visit) const {
    for (const auto& [peer, names] : table_.sending()) {
      if (HasWorkFor(peer)) visit(peer);
    }
  }

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
  BufferGuard::Use UseOf(const Message& message) const {
    return {message.attempt, *message.executor, *message.submission.buffers};
  }
  bool Agrees(const Message& message, const SegmentHeader& header);
  Result<Judged> Claim(Message& message, const SegmentHeader& header);
  Result<Judged> Hold(PeerId from, const SegmentHeader& header, const MessageName& name);
  void TakeWhole(Message& message, const EarlyFrame& frame, std::span<const std::byte> payload);
  void NoteComplete(const Message& message);

  Context& ctx_;
  Attempts& attempts_;
  BufferGuard& guard_;
  MessageTable& table_;
  std::map<PeerId, std::uint64_t> ahead_;  // bytes sent to a receiver that has not submitted their messages
  std::vector<MessageName> complete_;
  std::vector<Difference> differences_;
};

}  // namespace ringway::agreement
