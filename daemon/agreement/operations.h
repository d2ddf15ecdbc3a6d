// The operations of a peer, from submission to outcome (operation.h has the stages, PROTOCOL.md the rules).
//
//   Submit --> started in a running view --computed--> complete --all hold it, or a copy is kept--> told
//                 +--the verdict of a recovery: failed, or fetched--^                      all hold it --> forgotten
//
// Invariants: nothing starts, completes or is told unless the view runs, but for an error that ends everything. A
// trainer is told once. An UpdateView has no other operation beside it.
//
// Ownership: the Peer's. What came early, trouble found on the way, what is ripe and leaving its owner looks after once
// an event is handled: the calls that return bool return whether there may be any.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/frames_in.h"
#include "daemon/agreement/frames_out.h"
#include "daemon/agreement/launcher.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/op_work.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/send_queue.h"
#include "daemon/agreement/unsubmitted.h"
#include "daemon/buffers/feedback.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class Operations {
 public:
  // All outlive it.
  Operations(Context& ctx, Attempts& attempts, Links& links, OpTable& table, SendQueue& queue, Membership& membership,
             OperationWatch& watch, FramesIn& frames_in, FramesOut& frames_out)
      : ctx_(ctx),
        links_(links),
        table_(table),
        queue_(queue),
        membership_(membership),
        watch_(watch),
        frames_in_(frames_in),
        frames_out_(frames_out),
        launcher_(ctx, attempts, table, queue, membership),
        work_(ctx, frames_in) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  // ---- trainer
  Status Submit(Submission submission);
  [[nodiscard]] bool OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token);
  void SetDeadline(std::uint64_t token, Duration after);

  // ---- members
  void OnReady(PeerId from, const OpName& name, const Descriptor& descriptor);
  void OnDone(PeerId from, const OpName& name);
  void OnTaken(const FramesIn::Taken& taken);
  // READY of small operations that have run for the detection time. Before that nobody says it of them; but ranks whose
  // descriptors differ may exchange no segments. To be called with each heartbeat.
  void SendLateReadies();
  bool HasWork() const { return work_.size() > 0; }
  // A slice of copies and sums.
  [[nodiscard]] bool Work();
  // Tells and forgets what is due.
  void SettleDue();

  // ---- views
  void StopAll();
  void OnView();
  void AdoptVerdicts(const control::View& view);
  // Starts what the new view lets start.
  [[nodiscard]] bool StartAll();
  void Describe(control::Report& report) const;
  void OnEnd(Code code, const std::string& text);

 private:
  void Start(Operation& op);
  // Whether word of it counts before it is submitted here.
  bool CanComeEarly(const OpName& name) const;
  void StartFetch(Operation& op);
  // Copies and sums of this operation as far as the slice goes; Work does the rest. It may be complete, or told, then.
  void StartWork(Operation& op);
  void MarkComplete(const Operation& op);
  void OnComputed(Operation& op);
  // The result of a computed operation, or all of its parts, cannot get lost any more.
  void MarkDurable(Operation& op);
  void Settle(Operation& op);
  void Tell(Operation& op);
  void Fail(Operation& op, Code code, const std::string& text);
  void AdoptVerdict(Operation& op, const control::Verdict& verdict);
  // Where the channels stand once this rank's operations have ended: beyond what failed before it submitted it, too.
  ChannelSeqs AgreedSeqs() const;
  void SendReady(Operation& op);
  void SendDone(const OpName& name);
  void Retire(const Operation& op);

  Context& ctx_;
  Links& links_;
  OpTable& table_;
  SendQueue& queue_;
  Membership& membership_;
  OperationWatch& watch_;
  FramesIn& frames_in_;
  FramesOut& frames_out_;
  Launcher launcher_;
  OpWork work_;
  Unsubmitted unsubmitted_;
  buffers::ResidualBook residuals_;
  control::OpReport last_update_;  // tells the master where the channels of the last view adopted began
};

}  // namespace ringway::agreement
