// The inside of agreement::Peer, shared by its source files:
//
//   peer_impl.cc         events, to the parts that they concern
//   peer_messages.cc     what members tell each other
//   peer_operations.cc   submissions, completion, DONE and acknowledgements, fetching
//   peer_work.cc         copies and sums in slices
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_guard.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/early_messages.h"
#include "daemon/agreement/frames_in.h"
#include "daemon/agreement/frames_out.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/paths.h"
#include "daemon/agreement/peer.h"
#include "daemon/agreement/send_queue.h"
#include "daemon/agreement/view.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/word.h"

namespace ringway::agreement {

class Peer::Impl final : private Links::Listener, private Membership::Listener {
 public:
  Impl(PeerId self, std::string group, PeerOptions options)
      : ctx_(self, std::move(group), std::move(options)),
        links_(ctx_, attempts_, *this),
        paths_(ctx_, links_),
        queue_(ctx_, table_),
        membership_(ctx_, links_, table_, *this),
        op_watch_(ctx_, table_, membership_),
        guard_(ctx_, table_, attempts_, membership_),
        frames_in_(ctx_, attempts_, links_, table_, queue_, membership_, op_watch_, guard_),
        frames_out_(ctx_, attempts_, links_, table_, queue_, membership_, op_watch_, guard_),
        slice_left_(ctx_.options.slice_bytes) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // ---- peer_membership.cc
  void OnCandidates(const control::Candidates& candidates, TimePoint now) {
    ctx_.now = now;
    membership_.OnCandidates(candidates);
  }
  void OnForget(const control::Forget& forget);
  void OnView(const control::ViewFor& message, TimePoint now);
  void OnAbort(Epoch epoch, TimePoint now) {
    ctx_.now = now;
    membership_.OnAbort(epoch);
  }
  void OnTakeBack(Epoch first) { membership_.OnTakeBack(first, update_open_); }
  void OnEvicted(Code code, const std::string& text) { membership_.OnEvicted(code, text); }
  void OnMasterBack();
  Status Admit(const LinkId& link, std::uint32_t lanes) const { return links_.Admit(link, lanes); }
  void OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now);
  void OnLinkDown(const LinkId& link, const std::string& why, TimePoint now);
  void OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now);
  void Leave(TimePoint deadline, TimePoint now) {
    ctx_.now = now;
    membership_.Leave(deadline);
  }
  void Tick(TimePoint now);
  PeerStatus GetStatus() const;
  const PeerCounts& counts() const { return ctx_.counts; }
  const View& view() const { return ctx_.view(); }

  // ---- peer_messages.cc
  Status OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now);

  // ---- peer_operations.cc
  Status Submit(Submission submission, TimePoint now);
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token, TimePoint now);
  std::uint64_t NextSequence(ChannelId channel) const { return table_.NextSeq(channel); }

  // ---- peer_data.cc
  Result<Inbound> OnHeader(const LinkId& lane, const SegmentHeader& header);
  Status OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash);
  bool IsLive(std::uint64_t attempt) const { return attempt == 0 || attempts_.IsLive(attempt); }
  bool NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out);
  std::vector<PeerId> PeersWithWork() const;
  bool EmptyFrame(const LinkId& lane, Outbound& out) { return paths_.EmptyFrame(lane, out); }
  bool NeedsScratch() const { return table_.any_codec(); }

  // ---- peer_work.cc
  bool HasWork() const { return !work_.empty(); }
  void Work();

  void OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now);
  void WantLanes(PeerId other, std::uint32_t lanes, TimePoint now);

  void Emit(Action action) { ctx_.Emit(std::move(action)); }
  std::vector<Action> TakeActions() { return ctx_.TakeActions(); }

 private:
  // ---- Membership::Listener
  void OnStop() override;
  void OnInstalled(const View& before) override;
  void Describe(control::Report& report) const override;
  void OnEnd(Code code, const std::string& text) override;
  void StopAll();
  // Operations may start, where the view has changed.
  void StartIn(Membership::Change change);
  void AdoptVerdicts(const control::View& view);
  void DropLinks(PeerId other);
  // ---- Links::Listener
  void OnLaneDown(const LinkId& lane) override { frames_in_.Drop(lane); }
  void OnFrameLost(PeerId to, const links::SentFrame& frame) override { frames_out_.OnLost(to, frame); }
  void OnFrameRefused(const links::SentFrame& frame) override { guard_.OnRefused(frame); }
  void OnFault(const std::vector<PeerId>& others, const std::string& why) override { membership_.Accuse(others, why); }
  control::PeerMessage Heartbeat() const;
  void Handle(PeerId from, const control::PeerMessage& message);

  // ---- paths
  // No operation has anything to do here, nor has a recovery.
  bool MayProbe() const;

  // ---- operations
  // Starts what the new view lets start.
  void StartAll();
  void Start(Operation& op);
  void StartFetch(Operation& op);
  const collective::Schedule& ScheduleOf(Algorithm algorithm);
  void Launch(Operation& op, collective::Schedule schedule);
  Algorithm AlgorithmOf(const Operation& op) const;
  void Stop(Operation& op);
  void MarkComplete(const Operation& op);
  void OnComputed(Operation& op);
  void Settle(Operation& op);
  void Tell(Operation& op);
  // Copies and sums of this operation as far as the slice goes; Work does the rest. It may be complete, or told, then.
  void StartWork(Operation& op);
  void WorkOn(Operation& op);
  void WorkOnInput(Operation& op);
  void CopyResult(Operation& op);
  bool HasWorkLeft(const Operation& op) const;
  // Copies of result and input, for those who may lack them when the trainer was told.
  void Retain(Operation& op, bool with_input);
  void Unretain(Operation& op);
  void Spend(std::uint64_t bytes) { slice_left_ -= std::min(slice_left_, bytes); }
  void Fail(Operation& op, Code code, const std::string& text);
  // Where the channels stand once this rank's operations have ended: beyond what failed before it submitted it, too.
  ChannelSeqs AgreedSeqs() const;
  void AdoptVerdict(Operation& op, const control::Verdict& verdict);
  void SendReady(const Operation& op);
  void SendDone(const OpName& name);
  void OnReady(PeerId from, const OpName& name, const Descriptor& descriptor);
  // After anything that may have made operations ripe: replays what came too early, tells, forgets, reports trouble,
  // leaves.
  void AfterProgress();
  // Tells and forgets what is due.
  void SettleDue();
  void Retire(const Operation& op);
  bool IsToBeRetained(const Operation& op) const;
  control::OpReport ReportOf(const Operation& op) const;

  // ---- data
  void OnTaken(const FramesIn::Taken& taken);

  Context ctx_;
  Attempts attempts_;
  Links links_;
  Paths paths_;
  SendQueue queue_;  // outlives the executors in the table
  OpTable table_;
  Membership membership_;
  OperationWatch op_watch_;
  BufferGuard guard_;
  FramesIn frames_in_;
  FramesOut frames_out_;
  std::map<Algorithm, collective::Schedule> schedules_;  // of this view
  std::map<OpName, control::Verdict> ahead_;             // error verdicts of operations not submitted here yet
  std::map<OpName, std::map<PeerId, Descriptor>> early_ready_;
  EarlyMessages early_messages_;
  std::set<OpName> work_;     // operations with copies or sums to do
  OpName work_cursor_;        // round robin over them
  std::uint64_t slice_left_;  // until the next Work
  bool update_open_ = false;
  control::OpReport last_update_;  // tells the master where the channels of the last view adopted began
  TimePoint last_tick_{};
};

}  // namespace ringway::agreement
