// The data path of a peer: the live attempts, and the frames that they send and take.
//
//   frames arrive --> FramesIn  --> Attempt (an executor) --> FramesOut --> frames leave
//                        |           ^    ^                      |
//      early_frames.h: held until    |    +-- buffer_guard.h ----+   in whose turn: send_queue.h, message_queue.h
//      the attempt begins -----------+
//
// It moves bytes. Which attempts begin and end, what is held and for how long, and what is done when one is complete
// the agreement decides.
//
// Ownership: the peer's; it outlives all attempts. Pure; one thread.
#pragma once

#include "daemon/transfer/attempt.h"
#include "daemon/transfer/buffer_guard.h"
#include "daemon/transfer/early_frames.h"
#include "daemon/transfer/frames_in.h"
#include "daemon/transfer/frames_out.h"
#include "daemon/transfer/message_queue.h"
#include "daemon/transfer/send_queue.h"
#include "proto/clock.h"
#include "proto/memory_budget.h"
#include "proto/peer_counts.h"

namespace ringway::transfer {

struct Transfer {
  // All outlive it; `memory` may be null: no limit.
  Transfer(const TimePoint& now, PeerCounts& counts, MemoryShare* memory, BufferGuard::Listener& listener)
      : early_room(memory),
        early_message_room(memory),
        queue(counts),
        guard(now, attempts, listener),
        in(attempts, guard),
        out(attempts, queue, messages, guard, counts) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Attempts attempts;
  EarlyRoom early_room;          // for operations
  EarlyRoom early_message_room;  // for messages
  SendQueue queue;
  MessageQueue messages;
  BufferGuard guard;
  FramesIn in;
  FramesOut out;
};

}  // namespace ringway::transfer
