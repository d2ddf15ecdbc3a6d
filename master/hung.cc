#include "master/hung.h"

#include <algorithm>
#include <utility>

#include "proto/mutation.h"

namespace ringway {
namespace {

using Reports = std::map<PeerId, control::Report>;

bool HasSubmitted(const control::Report& report, const OpName& op) {
  return std::any_of(report.next_seq().begin(), report.next_seq().end(), [&](const control::ChannelSeq& next) {
    return next.channel() == op.channel.value && next.seq() > op.seq;
  });
}

std::set<PeerId> Lacking(const Reports& reports, const OpName& op) {
  std::set<PeerId> out;
  for (const auto& [peer, report] : reports) {
    if (!HasSubmitted(report, op)) out.insert(peer);
  }
  return out;
}

// Of operations that members have waited for for too long and nobody has an outcome of.
std::map<OpName, std::set<PeerId>> LackingByOp(const Reports& reports) {
  std::set<OpName> waited_for;
  std::set<OpName> decided;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      const OpName name{ChannelId(op.channel()), op.seq()};
      if (op.hung()) waited_for.insert(name);
      if (op.stage() != control::OP_STAGE_RUNNING) decided.insert(name);
    }
  }
  std::map<OpName, std::set<PeerId>> out;
  for (const OpName& op : waited_for) {
    std::set<PeerId> lacking = Lacking(reports, op);
    if (!decided.contains(op) && !lacking.empty()) out[op] = std::move(lacking);
  }
  return out;
}

// Also for one that all have submitted: then it runs, and whoever has it may wait for it.
bool Waits(const control::Report& report) {
  if (RINGWAY_MUTANT(kBlameTheWaiting)) return false;
  return std::any_of(report.ops().begin(), report.ops().end(),
                     [](const control::OpReport& op) { return op.stage() == control::OP_STAGE_RUNNING; });
}

bool AnyRuns(const Reports& reports) {
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      const bool runs = op.stage() == control::OP_STAGE_RUNNING;
      if (runs && Lacking(reports, {ChannelId(op.channel()), op.seq()}).empty()) return true;
    }
  }
  return false;
}

}  // namespace

std::set<PeerId> WhoHangs(const Reports& reports) {
  const std::map<OpName, std::set<PeerId>> lacking = LackingByOp(reports);
  if (lacking.empty() || RINGWAY_MUTANT(kKeepHung)) return {};
  std::set<PeerId> hung;
  for (const auto& [op, peers] : lacking) hung.insert(peers.begin(), peers.end());
  std::erase_if(hung, [&](PeerId peer) { return Waits(reports.at(peer)); });
  if (hung.empty() && !AnyRuns(reports)) {
    hung = std::min_element(lacking.begin(), lacking.end(), [](const auto& a, const auto& b) {
             return a.second.size() < b.second.size();
           })->second;
  }
  return 2 * hung.size() <= reports.size() ? hung : std::set<PeerId>();
}

}  // namespace ringway
