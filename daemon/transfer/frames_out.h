// Frames that leave: the next segment of an operation, a message, or a fetch that is served, for a lane with room; and
// the resend of what was lost on its way.
//
//   lane has room --> a fetch's segment, in turn with        --encoded, charged--> on its way
//                       an operation's (send_queue.h), in turn with                   |
//                       a message's (message_queue.h)                                 |
//                ^------------- lost with its lane, while its attempt is live --------+
//
// Invariant: each fetch that is served is a live attempt of its own, of a result that this rank holds.
//
// Ownership: the peer's. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <vector>

#include "daemon/links/frames.h"
#include "daemon/links/lane_ledger.h"
#include "daemon/links/link.h"
#include "daemon/transfer/attempt.h"
#include "daemon/transfer/buffer_guard.h"
#include "daemon/transfer/message_queue.h"
#include "daemon/transfer/send_queue.h"
#include "proto/ids.h"
#include "proto/peer_counts.h"

namespace ringway::transfer {

class FramesOut {
 public:
  // All outlive it.
  FramesOut(Attempts& attempts, SendQueue& queue, MessageQueue& messages, BufferGuard& guard, PeerCounts& counts)
      : attempts_(attempts), queue_(queue), messages_(messages), guard_(guard), counts_(counts) {}
  FramesOut(const FramesOut&) = delete;
  FramesOut& operator=(const FramesOut&) = delete;

  // Describes the segments that a lane to `rank` can take. Codecs encode into `scratch`, which holds bytes_max and
  // stays untouched until the segment is written.
  struct Offer {
    links::LinkId lane;
    Rank rank;
    std::uint32_t bytes_max = 0;
    std::span<std::byte> scratch;
    bool in_process = false;  // no hash for what is read once
  };
  // The next segment for it, which counts as sent; false: there is none.
  bool Next(const Offer& offer, links::Outbound& out, links::SentFrame& sent);
  // Calls `add_rank` or `add_peer` with each receiver for which there may be a segment, one or more times.
  template <typename F, typename G>
  void ForEachWithWork(F&& add_rank, G&& add_peer) const {
    queue_.index().ForEachRank(add_rank);
    for (const Serving& serving : serving_) serving.attempt.executor().ForEachReady(add_rank);
    messages_.ForEachPeerWithWork(add_peer);
  }
  // Lost on the way to `to`: resent, unless its attempt is over.
  void OnLost(PeerId to, const links::SentFrame& frame);

  // ---- fetches
  // Serves the result of `source`, whose buffers hold it, to `to`. REQUIRES: it is sealed where its trainer can write
  // to it; Forget comes before it goes.
  void Serve(PeerId to, Attempt& source, Attempt::Start start);
  bool serves() const { return !serving_.empty(); }
  void StopServing();
  void Forget(const OpName& name);

 private:
  struct Serving {  // a fetch that this rank answers
    Serving(PeerId receiver, Attempt& result) : to(receiver), source(result) {}
    const PeerId to;
    Attempt& source;
    Attempt attempt;
  };
  // The round-robin state of one lane. Each lane has its own: with shared turns, the small lanes would always take the
  // same ones.
  struct LaneTurns {
    bool fetched = false;  // a segment of a fetch
    bool message = false;  // or else, of its own segments, a message's
    StreamName stream;     // of its last message
  };
  struct Outgoing {
    links::Outbound& out;
    links::SentFrame& sent;
  };
  bool NextFetched(const Offer& offer, const Outgoing& to);
  bool NextServed(Serving& serving, const Offer& offer, const Outgoing& to);
  // Operations and messages take turns.
  bool NextOwn(const Offer& offer, LaneTurns& turns, const Outgoing& to);
  bool NextOperation(const Offer& offer, const Outgoing& to);
  bool NextMessage(const Offer& offer, StreamName& last, const Outgoing& to);
  bool Send(Attempt& attempt, const collective::Ready& ready, const Offer& offer, const Outgoing& to);

  Attempts& attempts_;
  SendQueue& queue_;
  MessageQueue& messages_;
  BufferGuard& guard_;
  PeerCounts& counts_;
  std::map<links::LinkId, LaneTurns> turns_;
  std::list<Serving> serving_;
};

}  // namespace ringway::transfer
