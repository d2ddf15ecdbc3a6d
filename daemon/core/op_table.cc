#include "daemon/core/op_table.h"

#include <algorithm>

#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::core {

Operation* OpTable::Find(const OpName& name) {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

Operation* OpTable::FindToken(std::uint64_t token) {
  for (auto& [name, op] : ops_) {
    if (!op.told && op.submission.token == token) return &op;
  }
  return nullptr;
}

Operation& OpTable::Add(Submission submission) {
  Channel& channel = channels_[submission.channel];
  const OpName name{submission.channel, channel.next++};
  Operation& op = ops_[name];
  op.name = name;
  op.submission = std::move(submission);
  return op;
}

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

void OpTable::Acknowledge(PeerId peer, ChannelId channel, std::uint64_t seq) {
  std::uint64_t& known = acknowledged_[peer][channel];
  known = std::max(known, seq);
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

void OpTable::Collect(const View& view, const std::function<void(const Operation&)>& retire) {
  for (auto it = ops_.begin(); it != ops_.end();) {
    const Operation& op = it->second;
    const bool kept = !(RINGWAY_MUTANT(kDropSmall) && op.own_output);
    if (op.stage != Stage::kReported || (kept && !AllHold(op, view))) {
      ++it;
      continue;
    }
    retire(op);
    if (op.own_output) retained_bytes_ -= op.bytes();
    Channel& channel = channels_[op.name.channel];
    Extend(channel.finished_upto, channel.finished_beyond, op.name.seq);
    it = ops_.erase(it);
  }
}

}  // namespace ringway::core
