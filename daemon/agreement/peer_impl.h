// The inside of agreement::Peer: its parts, and which event goes to which of them.
//
//   Context         who it is, the time, the view in force; actions and counts go out there
//   Links           which stand; messages and lanes that break and are repaired
//   Paths           what they carry
//   Membership      views, reports, accusations, leaving
//   OperationWatch  what waits for long
//   SendQueue       whose turn it is to be sent      | the
//   BufferGuard     trainers that write too early    | data
//   FramesIn, FramesOut                              | path
//   Operations      from submission to outcome
//
// Each part may call those above it, and look up operations and attempts. What concerns those below comes back as a
// value, or by a listener: this class, which decides nothing but the order in which an event reaches several parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_guard.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/frames_in.h"
#include "daemon/agreement/frames_out.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/operations.h"
#include "daemon/agreement/paths.h"
#include "daemon/agreement/peer.h"
#include "daemon/agreement/send_queue.h"

namespace ringway::agreement {

class Peer::Impl final : private Links::Listener, private Membership::Listener {
 public:
  Impl(PeerId self, std::string group, PeerOptions options)
      : ctx_(self, std::move(group), std::move(options)),
        links_(ctx_, attempts_, *this),
        paths_(ctx_, links_),
        queue_(ctx_, table_),
        membership_(ctx_, links_, table_, *this),
        watch_(ctx_, table_, membership_),
        guard_(ctx_, table_, attempts_, membership_),
        frames_in_(ctx_, attempts_, links_, table_, queue_, membership_, watch_, guard_),
        frames_out_(ctx_, attempts_, links_, table_, queue_, membership_, watch_, guard_),
        operations_(ctx_, attempts_, links_, table_, queue_, membership_, watch_, frames_in_, frames_out_) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // ---- master
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
  void OnTakeBack(Epoch first) { membership_.OnTakeBack(first); }
  void OnEvicted(Code code, const std::string& text) { membership_.OnEvicted(code, text); }
  void OnMasterBack();

  // ---- links
  Status Admit(const LinkId& link, std::uint32_t lanes) const { return links_.Admit(link, lanes); }
  void OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now);
  void OnLinkDown(const LinkId& link, const std::string& why, TimePoint now);
  void OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now);
  void OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now);
  void WantLanes(PeerId other, std::uint32_t lanes, TimePoint now);
  Status OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now);

  // ---- trainer
  Status Submit(Submission submission, TimePoint now);
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token, TimePoint now) {
    ctx_.now = now;
    operations_.Cancel(token);
  }
  void Leave(TimePoint deadline, TimePoint now) {
    ctx_.now = now;
    membership_.Leave(deadline);
  }
  std::uint64_t NextSequence(ChannelId channel) const { return table_.NextSeq(channel); }

  // ---- data path
  Result<Inbound> OnHeader(const LinkId& lane, const SegmentHeader& header);
  Status OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash);
  bool IsLive(std::uint64_t attempt) const { return attempt == 0 || attempts_.IsLive(attempt); }
  bool NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out);
  bool EmptyFrame(const LinkId& lane, Outbound& out) { return paths_.EmptyFrame(lane, out); }
  std::vector<PeerId> PeersWithWork() const;
  bool NeedsScratch() const { return table_.any_codec(); }
  bool HasWork() const { return operations_.HasWork(); }
  void Work();

  void Tick(TimePoint now);
  PeerStatus GetStatus() const;
  const PeerCounts& counts() const { return ctx_.counts; }
  const View& view() const { return ctx_.view(); }
  void Emit(Action action) { ctx_.Emit(std::move(action)); }
  std::vector<Action> TakeActions() { return ctx_.TakeActions(); }

 private:
  // ---- Links::Listener
  void OnLaneDown(const LinkId& lane) override { frames_in_.Drop(lane); }
  void OnFrameLost(PeerId to, const links::SentFrame& frame) override { frames_out_.OnLost(to, frame); }
  void OnFrameRefused(const links::SentFrame& frame) override { guard_.OnRefused(frame); }
  void OnFault(const std::vector<PeerId>& others, const std::string& why) override { membership_.Accuse(others, why); }

  // ---- Membership::Listener
  void OnStop() override;
  void OnInstalled(const View& before) override;
  void Describe(control::Report& report) const override { operations_.Describe(report); }
  void OnEnd(Code code, const std::string& text) override { operations_.OnEnd(code, text); }

  // Operations may start, where the view has changed.
  void StartIn(Membership::Change change);
  void DropLinks(PeerId other);
  control::PeerMessage Heartbeat() const;
  void Handle(PeerId from, const control::PeerMessage& message);
  void AfterProgress();
  // No operation has anything to do here, nor has a recovery.
  bool MayProbe() const;

  Context ctx_;
  Attempts attempts_;
  Links links_;
  Paths paths_;
  SendQueue queue_;  // outlives the executors in the table
  OpTable table_;
  Membership membership_;
  OperationWatch watch_;
  BufferGuard guard_;
  FramesIn frames_in_;
  FramesOut frames_out_;
  Operations operations_;
};

}  // namespace ringway::agreement
