// Operations that wait for long: said in the log, given up at their deadline, and started anew where nothing can be
// what they wait for (watchdog.h).
//
// They are looked at once a heartbeat, and when the next deadline is over.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "daemon/agreement/peer_impl.h"

namespace ringway::agreement {
namespace {

constexpr Duration kShownAge = std::chrono::seconds(1);  // of an operation whose wait status shows

std::string Ms(Duration time) { return std::to_string(time.count() / 1000); }

}  // namespace

// What is known here, or was when the view broke: who has sent READY or any segment of it has submitted it.
std::string Peer::Impl::WaitsFor(const Operation& op) const {
  std::string names;
  for (const PeerId member : view_.members) {
    if (member == self_ || op.ready.contains(member) || op.holders.contains(member)) continue;
    names += (names.empty() ? "" : ",") + NameOf(member);
  }
  if (!names.empty()) return names;
  return frozen() ? "a new view" : "data";
}

void Peer::Impl::WatchBy(const std::optional<TimePoint>& deadline) {
  if (deadline) next_watch_ = std::min(next_watch_, *deadline);
}

void Peer::Impl::WatchOperations() {
  if (now_ < next_watch_) return;
  next_watch_ = now_ + view_.plan.heartbeat;
  waits_.clear();
  bool said = false;
  std::string overdue;
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    const Duration age = now_ - op.since;
    if (waits_.empty() && age > std::min(kShownAge, view_.plan.detect))
      waits_ = ToString(name) + " for " + WaitsFor(op);
    if (!said && age > std::max(op.next_word, view_.plan.detect)) {
      said = true;  // the oldest speaks for all
      op.next_word = 2 * age;
      AddNote(
          "operation_waits",
          "epoch=" + ToString(view_.epoch) + " op=" + ToString(name) + " age_ms=" + Ms(age) + " for=" + WaitsFor(op),
          Severity::kWarning);
    }
    if (!op.overdue.empty() || !op.submission.deadline) continue;
    if (now_ < *op.submission.deadline) {
      WatchBy(op.submission.deadline);
      continue;
    }
    op.overdue =
        NameOf(self_) + " has waited " + Ms(age) + " ms for operation " + ToString(name) + ", last for " + WaitsFor(op);
    overdue = op.overdue;
  }
  if (!overdue.empty() && installed()) {
    running() ? Trouble(overdue) : SendReport(overdue);
  }
  if (running()) BarkIfStuck();
  if (running()) BlameTheHung();
}

// Who it is the master finds, from what all say their trainers have submitted; until it asks, everything goes on. Not
// while somebody may wait for an operation that only needs time: one that all have submitted, or whose result is still
// on its way to others.
void Peer::Impl::BlameTheHung() {
  if (view_.hung == Duration::zero()) return;
  const auto needs_time = [this](const auto& entry) {
    const bool is_over = entry.second.has_outcome() && table_.AllHold(entry.second, view_);
    return laggards_.AllHave(entry.first) && !is_over;
  };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), needs_time)) return;
  std::string why;
  for (auto& entry : table_.ops()) {
    const OpName& name = entry.first;
    Operation& op = entry.second;
    if (op.has_outcome()) continue;
    std::vector<PeerId> hung;
    std::copy_if(view_.members.begin(), view_.members.end(), std::back_inserter(hung),
                 [&](PeerId member) { return member != self_ && laggards_.HoldsUp(name, member, view_.hung, now_); });
    if (hung.empty()) continue;
    op.hung_for = std::move(hung);  // until the view ends: the master may only be about to ask
    op.hung_in = view_.epoch;
    why = "the trainer of " + NameOf(op.hung_for.front()) + " has submitted nothing for " + Ms(view_.hung) +
          " ms, and operation " + ToString(name) + " waits for it";
  }
  if (why.empty()) return;
  laggards_.BeginAnew(now_);  // the master may find that nobody goes
  SendReport(why);
}

// A trainer that is still copying an input in is a reason for everybody to wait.
Duration Peer::Impl::StillFor() const {
  const auto is_staging = [](const auto& entry) { return IsStaging(entry.second); };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), is_staging)) return {};
  return watchdog_.StillFor(now_);
}

ChannelSeqs Peer::Impl::SubmittedSeqs() const {
  ChannelSeqs next = table_.NextSeqs();
  if (RINGWAY_MUTANT(kTrustStaging)) return next;
  for (const auto& [name, op] : table_.ops()) {
    const bool stalled = IsStaging(op) && now_ - op.staged_at > view_.plan.detect;
    if (stalled) next[name.channel] = std::min(next[name.channel], name.seq);
  }
  return next;
}

void Peer::Impl::BarkIfStuck() {
  const Duration still = StillFor();
  if (still == Duration::zero()) return;
  for (const auto& [name, op] : table_.ops()) {
    if (op.told || !watchdog_.IsStuck(name, view_.members, self_, now_)) continue;
    const std::string what = "operation " + ToString(name) + " is stuck at " + NameOf(self_) + ", waiting for " +
                             (op.has_outcome() ? "others to hold its result" : WaitsFor(op));
    AddNote("operation_stuck",
            "epoch=" + ToString(view_.epoch) + " op=" + ToString(name) + " still_ms=" + Ms(still) + " text=" + what +
                "; a fault of ringwayd: the view is aborted and its operations start anew",
            Severity::kError);
    watchdog_.Bark(op.output_bytes(), now_);
    ++counts_.ops_stuck;
    return Trouble(what);
  }
}

}  // namespace ringway::agreement
