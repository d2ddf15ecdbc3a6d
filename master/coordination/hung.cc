#include "master/coordination/hung.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

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

// Operations and messages that its trainer has submitted.
std::uint64_t TotalOf(const control::Report& report) {
  std::uint64_t total = report.messages().submitted();
  for (const control::ChannelSeq& seq : report.next_seq()) total += seq.seq();
  return total;
}

OpName NameOfOp(const control::OpReport& op) { return {ChannelId(op.channel()), op.seq()}; }

// Returns, for each operation without an outcome that members have waited for too long, the peers that they waited for
// and that still have not submitted it.
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

// Peers that sends or recvs have awaited for too long and that have submitted nothing since, with the number of those
// who say so.
std::map<PeerId, std::size_t> BlamedByMessages(const Reports& reports) {
  std::map<PeerId, std::size_t> blamed;
  for (const auto& [peer, report] : reports) {
    for (const control::MessageWaits::Hung& hung : report.messages().hung()) {
      const auto found = reports.find(PeerId(hung.peer()));
      if (found == reports.end() || found->first == peer) continue;
      if (TotalOf(found->second) == hung.submitted()) ++blamed[found->first];
    }
  }
  return blamed;
}

// A trainer waits for nothing, for time alone, or for others.
struct Wait {
  bool runs = false;
  std::set<PeerId> on;
  bool idle() const { return !runs && on.empty(); }
};
using Waits = std::map<PeerId, Wait>;

// A peer whose own input is being staged waits for nothing: its trainer hangs there, whatever else it has submitted.
Wait WaitOf(PeerId peer, const Reports& reports, const Submitted& submitted) {
  Wait wait;
  if (RINGWAY_MUTANT(kBlameTheWaiting)) return wait;
  const control::Report& report = reports.at(peer);
  if (!RINGWAY_MUTANT(kBlameTheReceiving)) {
    wait.runs = report.messages().runs();
    for (const std::uint64_t awaited : report.messages().awaits()) {
      if (PeerId(awaited) != peer && reports.contains(PeerId(awaited))) wait.on.insert(PeerId(awaited));
    }
  }
  for (const control::OpReport& op : report.ops()) {
    if (IsOver(op)) continue;
    if (!submitted.Has(peer, NameOfOp(op))) return {};
    const std::set<PeerId> lacking = submitted.Lacking(NameOfOp(op));
    wait.runs = wait.runs || lacking.empty();
    wait.on.insert(lacking.begin(), lacking.end());
  }
  return wait;
}

// It, those that it waits for, those that these wait for, and so on.
std::set<PeerId> ReachedFrom(PeerId peer, const Waits& waits) {
  std::set<PeerId> reached;
  std::vector<PeerId> left{peer};
  while (!left.empty()) {
    const PeerId next = left.back();
    left.pop_back();
    if (reached.insert(next).second) left.insert(left.end(), waits.at(next).on.begin(), waits.at(next).on.end());
  }
  return reached;
}

// Whom a group waits for, by operations and by messages.
struct Blamed {
  std::map<OpName, std::set<PeerId>> by_op;
  std::map<PeerId, std::size_t> by_message;
  std::set<PeerId> all() const {
    std::set<PeerId> all;
    for (const auto& [op, peers] : by_op) all.insert(peers.begin(), peers.end());
    for (const auto& [peer, by] : by_message) all.insert(peer);
    return all;
  }
};

// Members of a circle that lack the operation which most others have submitted, else those that most wait for.
std::set<PeerId> MostAwaited(Blamed blamed, const std::set<PeerId>& circle) {
  const auto is_outside = [&](PeerId peer) { return !circle.contains(peer); };
  std::erase_if(blamed.by_op,
                [&](const auto& op) { return std::any_of(op.second.begin(), op.second.end(), is_outside); });
  std::erase_if(blamed.by_message, [&](const auto& entry) { return is_outside(entry.first); });
  if (!blamed.by_op.empty()) {
    const auto smaller = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
    return std::min_element(blamed.by_op.begin(), blamed.by_op.end(), smaller)->second;
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(blamed.by_message.begin(), blamed.by_message.end(), fewer);
  return most == blamed.by_message.end() ? std::set<PeerId>() : std::set<PeerId>{most->first};
}

}  // namespace

std::set<PeerId> WhoHangs(const Reports& reports) {
  if (RINGWAY_MUTANT(kKeepHung)) return {};
  const Submitted submitted(reports);
  const Blamed blamed{BlamedByOp(reports, submitted), BlamedByMessages(reports)};
  const std::set<PeerId> all = blamed.all();
  if (all.empty()) return {};
  Waits waits;
  for (const auto& [peer, report] : reports) waits[peer] = WaitOf(peer, reports, submitted);
  std::set<PeerId> hung;
  for (const PeerId peer : all) {
    const std::set<PeerId> reached = ReachedFrom(peer, waits);
    const auto is_idle = [&](PeerId one) { return waits.at(one).idle(); };
    const auto runs = [&](PeerId one) { return waits.at(one).runs; };
    if (std::any_of(reached.begin(), reached.end(), is_idle)) {  // one that is not blamed yet is found later
      std::copy_if(reached.begin(), reached.end(), std::inserter(hung, hung.end()),
                   [&](PeerId one) { return is_idle(one) && all.contains(one); });
    } else if (std::none_of(reached.begin(), reached.end(), runs)) {
      hung.merge(MostAwaited(blamed, reached));
    }
  }
  return 2 * hung.size() <= reports.size() ? hung : std::set<PeerId>();
}

}  // namespace ringway
