// The open operations of a peer, by channel and sequence number, with what is known about who holds which result.
//
// One invariant a field: a channel's `next` is above every submitted sequence number; everything up to `complete_upto`
// has an outcome here; everything up to `finished_upto` has one on every member and is forgotten.
//
// The set `due` has the operations that may be ready to be reported or forgotten: somebody holds one more than before,
// or it has advanced here. Nothing walks all operations for one segment, acknowledgement or submission.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "daemon/agreement/operation.h"
#include "daemon/agreement/view.h"

namespace ringway::agreement {

class OpTable {
 public:
  // Another rank's operations may be so far ahead of the own submissions before it is taken for broken.
  static constexpr std::uint64_t kAheadMax = 4096;
  static constexpr std::uint64_t kBeyondMax = 1 << 20;

  std::map<OpName, Operation>& ops() { return ops_; }
  const std::map<OpName, Operation>& ops() const { return ops_; }
  Operation* Find(const OpName& name);
  const Operation* Find(const OpName& name) const;
  Operation* FindToken(std::uint64_t token);
  // The next one of its channel that has no outcome; null: it is not submitted.
  Operation* NextOf(ChannelId channel) { return Find({channel, CompleteUpto(channel) + 1}); }
  bool IsNext(const OpName& name) const { return CompleteUpto(name.channel) + 1 == name.seq; }

  void SetDeadline(Operation& op, TimePoint deadline) {
    op.waiting.deadline = deadline;
    next_deadline_ = std::min(next_deadline_, deadline);
  }
  // The earliest that was set since the last call of ForgetDeadlines: it may be over.
  TimePoint next_deadline() const { return next_deadline_; }
  void ForgetDeadlines() { next_deadline_ = TimePoint::max(); }

  // Number of operations that are not reported. Many more may be reported and still retained.
  std::uint64_t pending() const { return pending_; }
  // Returns whether any of these is no UpdateView.
  bool moves_data() const { return pending_ > updates_open_; }
  // Returns whether an UpdateView is submitted and not reported.
  bool update_is_open() const { return updates_open_ > 0; }
  // Returns whether any operation has a codec.
  bool any_codec() const { return with_codec_ > 0; }
  // REQUIRES: it has just been.
  void OnReported(const Operation& op);

  // The operation gets the next sequence number of its channel.
  Operation& Add(Submission submission);

  // ---- operations that went on before their trainer has submitted them (Operation::submitted)
  // REQUIRES: it is not submitted, nor finished.
  Operation& AddUnsubmitted(const OpName& name, Submission submission);
  // What the next submission on this channel finds; null: nothing.
  Operation* FindUnsubmitted(ChannelId channel) { return Find({channel, NextSeq(channel)}); }
  // Its trainer has submitted it: it gets its number. REQUIRES: FindUnsubmitted of its channel.
  void OnSubmitted(Operation& op);
  // Forgets those without an outcome, but for those that are fetched: a new view decides on them anew.
  void ForgetUnsubmitted();
  void ForgetUnsubmitted(const OpName& name);  // REQUIRES: it is one
  // Raises `next` beyond those that have an outcome.
  void RaiseBeyondUnsubmitted(ChannelSeqs& next) const;
  // Returns whether one has no outcome.
  bool AnyUnsubmittedOpen() const;
  bool IsUnsubmittedOpen(const OpName& name) const {
    const Operation* const op = Find(name);
    return op != nullptr && !op->submitted && !op->has_outcome();
  }
  // Number of those of the channel that have one.
  std::uint64_t BehindOn(ChannelId channel) const;
  // Returns whether a peer that leaves has operations that it waits for, or that others need.
  bool HasToFinish(const View& view) const;

  std::uint64_t NextSeq(ChannelId channel) const;
  ChannelSeqs NextSeqs() const;
  // A newcomer starts where the members stand.
  void StartAt(const ChannelSeqs& next);
  // Skips operations below these that are not submitted: all ranks know how they ended.
  void SkipTo(const ChannelSeqs& next);

  bool IsFinished(const OpName& name) const;
  bool IsTooFarAhead(const OpName& name) const;

  void MarkComplete(const OpName& name);
  std::uint64_t CompleteUpto(ChannelId channel) const;
  ChannelSeqs CompleteUptoAll() const;
  ChannelSeqs FinishedUptoAll() const;
  // Finished ones after one that is not, in runs: as many at most as operations are not finished.
  struct Run {
    ChannelId channel;
    std::uint64_t first = 0, last = 0;
  };
  std::vector<Run> FinishedBeyondAll() const;
  // Returns whether its next operation would be too far beyond one that is not finished: each takes memory until that
  // one is.
  bool IsTooFarBeyond(ChannelId channel) const;

  // `peer` says that everything of the channel up to `seq` has an outcome there.
  void Acknowledge(PeerId peer, ChannelId channel, std::uint64_t seq);
  bool Holds(PeerId peer, const Operation& op) const;
  void AddHolder(Operation& op, PeerId peer);
  void MarkDue(const OpName& name) { due_.insert(name); }
  // REQUIRES: update_is_open().
  void MarkUpdateDue();
  // Marks all operations due, because the members have changed.
  void MarkAllDue();
  bool has_due() const { return !due_.empty(); }
  // The first of them, which is not due any more. REQUIRES: has_due().
  OpName TakeDue() { return due_.extract(due_.begin()).value(); }
  // Every contributor of the operation that is still a member holds its outcome.
  bool AllHold(const Operation& op, const View& view) const;
  // Returns whether it is reported and all hold it, so that it may be forgotten.
  bool IsFinished(const Operation& op, const View& view) const;
  void Forget(const OpName& name);
  std::uint64_t retained_bytes() const { return retained_bytes_; }
  void Retain(std::uint64_t bytes) { retained_bytes_ += bytes; }
  void Unretain(std::uint64_t bytes) { retained_bytes_ -= bytes; }

  void ForgetPeer(PeerId peer) { acknowledged_.erase(peer); }  // then MarkAllDue

 private:
  struct Channel {
    std::uint64_t next = 1;
    std::uint64_t complete_upto = 0;
    std::set<std::uint64_t> complete_beyond;
    std::uint64_t finished_upto = 0;
    std::set<std::uint64_t> finished_beyond;
  };
  Operation& Insert(const OpName& name, Submission submission);
  static void Extend(std::uint64_t& upto, std::set<std::uint64_t>& beyond, std::uint64_t seq);

  std::map<OpName, Operation> ops_;
  std::map<std::uint64_t, OpName> tokens_;  // of those that are not reported
  std::set<OpName> due_;
  TimePoint next_deadline_ = TimePoint::max();
  std::uint64_t pending_ = 0;
  std::uint64_t updates_open_ = 0;
  std::uint64_t with_codec_ = 0;
  std::map<ChannelId, Channel> channels_;
  std::map<PeerId, ChannelSeqs> acknowledged_;
  std::uint64_t retained_bytes_ = 0;
};

}  // namespace ringway::agreement
