#include "master/coordination/hung.h"

#include <algorithm>
#include <utility>

#include "proto/mutation.h"

namespace ringway {
namespace {

using Reports = std::map<PeerId, control::Report>;

// The next sequence number of each trainer, by channel.
class Submitted {
 public:
  explicit Submitted(const Reports& reports) {
    for (const auto& [peer, report] : reports) {
      auto& next = next_[peer];
      for (const control::ChannelSeq& seq : report.next_seq()) next[ChannelId(seq.channel())] = seq.seq();
    }
  }
  bool Has(PeerId peer, const OpName& op) const {
    const auto& next = next_.at(peer);
    const auto found = next.find(op.channel);
    return found != next.end() && found->second > op.seq;
  }
  std::set<PeerId> Lacking(const OpName& op) const {
    std::set<PeerId> out;
    for (const auto& [peer, next] : next_) {
      if (!Has(peer, op)) out.insert(peer);
    }
    return out;
  }

 private:
  std::map<PeerId, std::map<ChannelId, std::uint64_t>> next_;
};

// A peer that has its own part of a result still waits for the others'.
bool IsOver(const control::OpReport& op) {
  return op.stage() == control::OP_STAGE_COMPLETE || op.stage() == control::OP_STAGE_REPORTED;
}

OpName NameOfOp(const control::OpReport& op) { return {ChannelId(op.channel()), op.seq()}; }

// For operations without an outcome that members have waited for too long: the peers that they waited for and that
// still have not submitted it.
std::map<OpName, std::set<PeerId>> BlamedByOp(const Reports& reports, const Submitted& submitted) {
  std::map<OpName, std::set<PeerId>> named;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      for (const std::uint64_t hung : op.hung_for()) named[NameOfOp(op)].emplace(hung);
    }
  }
  if (named.empty()) return named;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      if (IsOver(op)) named.erase(NameOfOp(op));
    }
  }
  for (auto& [op, peers] : named) {
    const std::set<PeerId> lacking = submitted.Lacking(op);
    std::erase_if(peers, [&](PeerId peer) { return !lacking.contains(peer); });
  }
  std::erase_if(named, [](const auto& entry) { return entry.second.empty(); });
  return named;
}

// A peer also waits for an operation that all have submitted and that is still running. Not if its own input is being
// staged: its trainer hangs there, whatever else it has submitted.
bool Waits(PeerId peer, const control::Report& report, const Submitted& submitted) {
  if (RINGWAY_MUTANT(kBlameTheWaiting)) return false;
  bool runs = false;
  for (const control::OpReport& op : report.ops()) {
    if (IsOver(op)) continue;
    if (!submitted.Has(peer, NameOfOp(op))) return false;
    runs = true;
  }
  return runs;
}

bool AnyRuns(const Reports& reports, const Submitted& submitted) {
  return std::any_of(reports.begin(), reports.end(), [&](const auto& entry) {
    return std::any_of(entry.second.ops().begin(), entry.second.ops().end(), [&](const control::OpReport& op) {
      return !IsOver(op) && submitted.Lacking(NameOfOp(op)).empty();
    });
  });
}

}  // namespace

std::set<PeerId> WhoHangs(const Reports& reports) {
  const Submitted submitted(reports);
  const std::map<OpName, std::set<PeerId>> blamed = BlamedByOp(reports, submitted);
  if (blamed.empty() || RINGWAY_MUTANT(kKeepHung)) return {};
  std::set<PeerId> hung;
  for (const auto& [op, peers] : blamed) hung.insert(peers.begin(), peers.end());
  std::erase_if(hung, [&](PeerId peer) { return Waits(peer, reports.at(peer), submitted); });
  const bool all_wait = std::all_of(reports.begin(), reports.end(),
                                    [&](const auto& entry) { return Waits(entry.first, entry.second, submitted); });
  if (hung.empty() && all_wait && !AnyRuns(reports, submitted)) {  // else a peer that waits for nothing is found later
    hung = std::min_element(blamed.begin(), blamed.end(), [](const auto& a, const auto& b) {
             return a.second.size() < b.second.size();
           })->second;
  }
  return 2 * hung.size() <= reports.size() ? hung : std::set<PeerId>();
}

}  // namespace ringway
