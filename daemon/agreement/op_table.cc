#include "daemon/agreement/op_table.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

Operation* OpTable::Find(const OpName& name) {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

const Operation* OpTable::Find(const OpName& name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

Operation* OpTable::FindToken(std::uint64_t token) {
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? nullptr : Find(found->second);
}

void OpTable::OnReported(const Operation& op) {
  const auto found = tokens_.find(op.submission.token);
  if (found != tokens_.end() && found->second == op.name) tokens_.erase(found);
  --pending_;
  updates_open_ -= op.is_update();
}

Operation& OpTable::Add(Submission submission) {
  Channel& channel = channels_[submission.channel()];
  const OpName name{submission.channel(), channel.next++};
  Operation& op = Insert(name, std::move(submission));
  tokens_[op.submission.token] = name;
  ++pending_;
  updates_open_ += op.is_update();
  return op;
}

Operation& OpTable::Insert(const OpName& name, Submission submission) {
  Operation& op = ops_[name];
  op.name = name;
  op.attempt.buffers = submission.buffers;
  op.attempt.name = {.op = name, .priority = submission.spec.priority};
  op.submission = std::move(submission);
  with_codec_ += op.submission.descriptor.codec != Codec::kNone;
  return op;
}

// ---------------------------------------------------------------------------------------------- not submitted

Operation& OpTable::AddUnsubmitted(const OpName& name, Submission submission) {
  RINGWAY_CHECK(name.seq >= NextSeq(name.channel) && !ops_.contains(name));
  Operation& op = Insert(name, std::move(submission));
  op.submitted = false;
  return op;
}

void OpTable::OnSubmitted(Operation& op) {
  RINGWAY_CHECK(!op.submitted && op.name.seq == NextSeq(op.name.channel));
  channels_[op.name.channel].next = op.name.seq + 1;
  op.submitted = true;
  op.attempt.name.priority = op.submission.spec.priority;
  tokens_[op.submission.token] = op.name;
  ++pending_;
}

void OpTable::ForgetUnsubmitted(const OpName& name) {
  with_codec_ -= ops_.at(name).submission.descriptor.codec != Codec::kNone;
  ops_.erase(name);
}

void OpTable::ForgetUnsubmitted() {
  for (auto entry = ops_.begin(); entry != ops_.end();) {
    const Operation& op = (entry++)->second;
    if (!op.submitted && !op.has_outcome() && !op.fetching) ForgetUnsubmitted(OpName(op.name));
  }
}

void OpTable::RaiseBeyondUnsubmitted(ChannelSeqs& next) const {
  for (const auto& [name, op] : ops_) {
    if (op.submitted || !op.has_outcome()) continue;
    RINGWAY_REACHED(kUpdateAfterUnsubmitted);
    next[name.channel] = std::max(next[name.channel], name.seq + 1);
  }
}

bool OpTable::AnyUnsubmittedOpen() const {
  return std::any_of(ops_.begin(), ops_.end(),
                     [](const auto& entry) { return !entry.second.submitted && !entry.second.has_outcome(); });
}

std::uint64_t OpTable::BehindOn(ChannelId channel) const {
  return static_cast<std::uint64_t>(
      std::count_if(ops_.lower_bound({channel, NextSeq(channel)}), ops_.end(), [&](const auto& entry) {
        return entry.first.channel == channel && !entry.second.submitted && entry.second.has_outcome();
      }));
}

bool OpTable::HasToFinish(const View& view) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
    const Operation& op = entry.second;
    return op.submitted || !op.has_outcome() || !AllHold(op, view);
  });
}

// ---------------------------------------------------------------------------------------------- sequence numbers

std::uint64_t OpTable::NextSeq(ChannelId channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? 1 : found->second.next;
}

ChannelSeqs OpTable::NextSeqs() const {
  ChannelSeqs out;
  for (const auto& [id, channel] : channels_) out[id] = channel.next;
  return out;
}

void OpTable::StartAt(const ChannelSeqs& next) {
  for (const auto& [id, seq] : next) {
    if (seq == 0) continue;
    channels_[id] = {
        .next = seq, .complete_upto = seq - 1, .complete_beyond = {}, .finished_upto = seq - 1, .finished_beyond = {}};
  }
}

void OpTable::SkipTo(const ChannelSeqs& next) {
  for (const auto& [id, seq] : next) {
    Channel& channel = channels_[id];
    RINGWAY_REACHED_IF(channel.next < seq, kSkipBehind);
    for (; channel.next < seq; ++channel.next) {
      if (Operation* op = Find({id, channel.next});
          op != nullptr && op->has_outcome()) {  // it went on without the trainer, which never gets to it
        op->submitted = true;
        op->stage = Stage::kReported;
        MarkDue(op->name);
        continue;
      }
      Extend(channel.complete_upto, channel.complete_beyond, channel.next);
      Extend(channel.finished_upto, channel.finished_beyond, channel.next);
    }
  }
}

bool OpTable::IsFinished(const OpName& name) const {
  const auto found = channels_.find(name.channel);
  if (found == channels_.end()) return false;
  return name.seq <= found->second.finished_upto || found->second.finished_beyond.contains(name.seq);
}

bool OpTable::IsTooFarAhead(const OpName& name) const { return name.seq > NextSeq(name.channel) + kAheadMax; }

void OpTable::Extend(std::uint64_t& upto, std::set<std::uint64_t>& beyond, std::uint64_t seq) {
  beyond.insert(seq);
  while (!beyond.empty() && *beyond.begin() <= upto + 1) {
    upto = std::max(upto, *beyond.begin());
    beyond.erase(beyond.begin());
  }
}

void OpTable::MarkComplete(const OpName& name) {
  Channel& channel = channels_[name.channel];
  Extend(channel.complete_upto, channel.complete_beyond, name.seq);
}

std::uint64_t OpTable::CompleteUpto(ChannelId channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? 0 : found->second.complete_upto;
}

ChannelSeqs OpTable::CompleteUptoAll() const {
  ChannelSeqs out;
  for (const auto& [id, channel] : channels_) out[id] = channel.complete_upto;
  return out;
}

ChannelSeqs OpTable::FinishedUptoAll() const {
  ChannelSeqs out;
  for (const auto& [id, channel] : channels_) out[id] = channel.finished_upto;
  return out;
}

std::vector<OpTable::Run> OpTable::FinishedBeyondAll() const {
  std::vector<Run> runs;
  for (const auto& [id, channel] : channels_) {
    bool begins = true;
    for (const std::uint64_t seq : channel.finished_beyond) {
      if (begins || runs.back().last + 1 != seq) runs.push_back({id, seq, seq});
      runs.back().last = seq;
      begins = false;
    }
  }
  return runs;
}

bool OpTable::IsTooFarBeyond(ChannelId id) const {
  const auto found = channels_.find(id);
  return found != channels_.end() && found->second.next - found->second.finished_upto > kBeyondMax;
}

void OpTable::Acknowledge(PeerId peer, ChannelId channel, std::uint64_t seq) {
  std::uint64_t& known = acknowledged_[peer][channel];
  if (seq <= known) return;
  for (auto it = ops_.upper_bound({channel, known}); it != ops_.end() && it->first <= OpName{channel, seq}; ++it) {
    due_.insert(it->first);
  }
  known = seq;
}

void OpTable::AddHolder(Operation& op, PeerId peer) {
  if (op.holders.insert(peer).second) due_.insert(op.name);
}

void OpTable::MarkUpdateDue() {
  for (const auto& [name, op] : ops_) {
    if (op.is_update()) due_.insert(name);
  }
}

void OpTable::MarkAllDue() {
  for (const auto& [name, op] : ops_) due_.insert(name);
}

bool OpTable::Holds(PeerId peer, const Operation& op) const {
  if (op.holders.contains(peer)) return true;
  const auto found = acknowledged_.find(peer);
  if (found == acknowledged_.end()) return false;
  const auto seq = found->second.find(op.name.channel);
  return seq != found->second.end() && seq->second >= op.name.seq;
}

bool OpTable::AllHold(const Operation& op, const View& view) const {
  const std::vector<PeerId>& needed = op.outcome.code == Code::kOk ? op.outcome.contributors : view.members;
  return std::all_of(needed.begin(), needed.end(),
                     [&](PeerId peer) { return !view.Contains(peer) || Holds(peer, op); });
}

bool OpTable::IsFinished(const Operation& op, const View& view) const {
  const bool kept = !(RINGWAY_MUTANT(kDropSmall) && op.is_retained());
  return op.is_reported() && (!kept || AllHold(op, view));
}

void OpTable::Forget(const OpName& name) {
  const Operation& op = ops_.at(name);
  RINGWAY_CHECK(op.is_reported());
  retained_bytes_ -= op.retained_bytes();
  with_codec_ -= op.submission.descriptor.codec != Codec::kNone;
  Channel& channel = channels_[name.channel];
  Extend(channel.finished_upto, channel.finished_beyond, name.seq);
  ops_.erase(name);
}

}  // namespace ringway::agreement
