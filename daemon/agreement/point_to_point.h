// Sends and recvs of a peer, from submission to outcome.
//
// The receiver alone decides how a message ends, once; the sender learns it:
//
//   sender                                receiver
//     Submit                                Submit --READY(epoch, count, dtype)-->
//     READY, or small: segments -->         all have come: ok
//                                           a segment or READY that differs: mismatch
//     Cancel, deadline, READY differs       Cancel, deadline: cancelled, deadline
//       --ASK(code)-->                      ASK: the same
//     ended <--DECIDED(code)--              ended
//
// READY, and so an attempt, is of one view: a freeze ends it, and in the next view the receiver says READY again.
// DECIDED counts in every view. Links keep both until they are delivered (links/control_stream.h). Where the other end
// is no member of the new view, a message ends with kPeerLost.
//
// A message may end before the other trainer has submitted its end: then that fails as soon as it is submitted, and
// SETTLED says so.
//
// Invariants: the sender ends a message by a DECIDED only, or as its receiver has left. Nothing is decided twice, for
// who decides forgets the message. No message makes a view fail.
//
// Ownership: the Peer's.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/agreement/context.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/message_frames.h"
#include "daemon/agreement/message_table.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class PointToPoint {
 public:
  // All outlive it.
  PointToPoint(Context& ctx, Links& links, Membership& membership, MessageTable& table, MessageFrames& frames)
      : ctx_(ctx), links_(links), membership_(membership), table_(table), frames_(frames) {}
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // ---- trainer. REQUIRES: a message, to another peer.
  Status Submit(buffers::Submission submission);
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token);
  void SetDeadline(std::uint64_t token, Duration after);

  // ---- members
  // READY counts in its view only. REQUIRES: that is the one in force, and runs.
  void OnMessage(PeerId from, const control::PointToPoint& said);
  // What is overdue.
  void Tick();
  // Decides what has come, and starts what a new view lets start.
  void Settle();
  // Returns whether it moves bytes.
  bool moves_data() const;
  // Returns whether a send is under way that its receiver waits for, or a sender may not have learned how its message
  // ended: a peer that leaves finishes it.
  bool HasToFinish() const;

  // ---- views
  void OnStop();
  void OnView();
  // No member any more: what was to it, or from it, ends.
  void ForgetPeer(PeerId other);
  void OnEnd(Code code, const std::string& text);

 private:
  void Start(Message& message);
  void Decide(Message& message, Code code, const std::string& text);
  void Ask(Message& message, Code code);
  void Report(const Message& message, Code code, const std::string& text);
  void End(Message& message, Code code, const std::string& text);
  bool Agrees(Message& message);
  void StartWaiting(PeerId receiver);
  void OnReady(const MessageName& name, const control::PointToPoint& said);
  void OnDecided(const MessageName& name, const control::PointToPoint& said);
  void OnAsk(const MessageName& name, const control::PointToPoint& said);
  void Say(PeerId to, const MessageName& name, control::PointToPoint said);
  std::string Why(PeerId whose, Code code, const MessageName& name) const;
  std::string Differs(const Message& message, std::uint64_t count, DType dtype) const;

  Context& ctx_;
  Links& links_;
  Membership& membership_;
  MessageTable& table_;
  MessageFrames& frames_;
  bool restarts_ = false;  // there is a new view
};

}  // namespace ringway::agreement
