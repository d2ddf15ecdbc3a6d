// The operations of a peer, from submission to outcome (operation.h has the stages, PROTOCOL.md the rules).
//
//   Submit --> started in a running view --computed--> complete --all hold it, or a copy is kept--> reported
//                 +--the verdict of a recovery: failed, or fetched--^                        all hold it --> forgotten
//
// Invariants: nothing starts, completes or is reported unless the view runs, but for an error that ends everything. An
// outcome is reported once. An UpdateView has no other operation beside it.
//
// Ownership: the Peer's. What came early, requested recoveries, what is due and leaving its owner looks after once an
// event is handled: the calls that return bool return whether there may be any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/agreement/agreed_inputs.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/launcher.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_frames.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/op_words.h"
#include "daemon/agreement/op_work.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/unsubmitted.h"
#include "daemon/buffers/feedback.h"
#include "daemon/transfer/transfer.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class Operations {
 public:
  // All outlive it.
  Operations(Context& ctx, Links& links, OpTable& table, Membership& membership, transfer::Transfer& transfer)
      : ctx_(ctx),
        links_(links),
        table_(table),
        membership_(membership),
        transfer_(transfer),
        frames_(ctx, links, table, transfer),
        launcher_(ctx, table, transfer, membership),
        work_(ctx, frames_),
        words_(ctx, links, table, transfer, launcher_),
        agreed_(ctx, links, table, membership) {}
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
  void OnOffer(PeerId from, const control::Offer& offer) { agreed_.OnOffer(from, offer); }
  void OnInputs(PeerId from, const control::Inputs& inputs);
  OpWords& words() { return words_; }

  // ---- frames
  // REQUIRES: its epoch is not over.
  Result<Judged> OnHeader(const LinkId& lane, const SegmentHeader& header) { return frames_.OnHeader(lane, header); }
  // Its payload is whole and intact; `frame` is used up.
  void OnPayload(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload);

  // ---- work
  bool HasWork() const { return work_.size() > 0; }
  // Other ranks of this daemon have brought inputs, or the result (collective::HostBoard).
  void OnRoundAdvanced(const OpName& name) { work_.Add(name); }
  // Does a slice of copies and sums.
  [[nodiscard]] bool Work();
  // Reports and forgets what is due.
  void SettleDue();

  // ---- views
  void OnStop() { frames_.OnStop(); }
  void StopAll();
  void OnView();
  void AdoptVerdicts(const control::View& view);
  // Starts what the new view lets start.
  [[nodiscard]] bool StartAll();
  void Describe(control::Report& report) const { words_.Describe(report, last_update_); }
  void OnEnd(Code code, const std::string& text);

 private:
  // Its time limit runs from now on.
  void SetDeadline(Operation& op);
  void Start(Operation& op);
  // Returns whether word of it counts before it is submitted here.
  bool CanComeEarly(const OpName& name) const;
  void StartFetch(Operation& op);
  // Copies and sums of this operation as far as the slice goes; Work does the rest. It may be complete, or reported,
  // then.
  void StartWork(Operation& op);
  void MarkComplete(const Operation& op);
  void OnComputed(Operation& op);
  // The result of a computed operation, or all of its parts, cannot get lost any more.
  void MarkDurable(Operation& op);
  void Settle(Operation& op);
  void Report(Operation& op);
  // Brings the channels in step after an UpdateView. Returns the prepared view that it has adopted; null: none.
  const control::View* Adopt(const Operation& op);
  void Fail(Operation& op, Code code, const std::string& text);
  void AdoptVerdict(Operation& op, const control::Verdict& verdict);
  void Retire(const Operation& op);

  Context& ctx_;
  Links& links_;
  OpTable& table_;
  Membership& membership_;
  transfer::Transfer& transfer_;
  OpFrames frames_;
  Launcher launcher_;
  OpWork work_;
  OpWords words_;
  AgreedInputs agreed_;
  Unsubmitted unsubmitted_;
  buffers::ResidualBook residuals_;
  control::OpReport last_update_;  // for the master: where the channels of the last view adopted began
};

}  // namespace ringway::agreement
