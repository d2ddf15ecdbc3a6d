#include "daemon/agreement/operation_watch.h"

#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

constexpr Duration kShownAge = std::chrono::seconds(1);  // of an operation whose wait status shows

std::uint32_t WireMs(Duration time) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(time.count() / 1000, std::numeric_limits<std::uint32_t>::max()));
}

bool IsStaging(const Operation& op) { return !op.has_outcome() && op.buffers->input_ready() < op.input_bytes(); }

std::int64_t Ms(Duration time) { return time.count() / 1000; }

}  // namespace

// What is known here, or was when the view broke: who has sent READY or any segment of it has submitted it, and who
// said so in a heartbeat.
std::string OperationWatch::WaitsFor(const Operation& op) const {
  std::string names;
  for (const PeerId member : ctx_.view().members) {
    if (member == ctx_.self || op.ready.contains(member) || op.holders.contains(member)) continue;
    if (laggards_.Has(member, op.name)) continue;
    names += (names.empty() ? "" : ",") + ctx_.NameOf(member);
  }
  if (!names.empty()) return names;
  return ctx_.views.frozen() ? "a new view" : "data";
}

void OperationWatch::OnView() {
  watchdog_.OnView(ctx_.now);
  laggards_.OnView(ctx_.view(), ctx_.now);
}

void OperationWatch::Heard(PeerId from, const control::PeerHeartbeat& heartbeat, bool early) {
  watchdog_.Heard(from, {.still = std::chrono::milliseconds(heartbeat.still_ms()),
                         .patience = std::chrono::milliseconds(heartbeat.patience_ms()),
                         .next = SeqsFrom(heartbeat.next_seq())});
  if (!early) laggards_.Heard(from, SeqsFrom(heartbeat.next_seq()), table_.NextSeqs(), ctx_.now);
}

void OperationWatch::Describe(control::PeerHeartbeat& heartbeat) const {
  SeqsTo(table_.CompleteUptoAll(), *heartbeat.mutable_complete_upto());
  if (RINGWAY_MUTANT(kAcknowledgeAhead)) {
    for (control::ChannelSeq& seq : *heartbeat.mutable_complete_upto()) seq.set_seq(seq.seq() + 1);
  }
  SeqsTo(SubmittedSeqs(), *heartbeat.mutable_next_seq());
  heartbeat.set_still_ms(WireMs(StillFor()));
  heartbeat.set_patience_ms(WireMs(watchdog_.patience()));
}

void OperationWatch::Tick() {
  if (ctx_.now < next_look_) return;
  next_look_ = ctx_.now + ctx_.view().plan.heartbeat;
  waits_.clear();
  bool said = false;
  std::string overdue;
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    const Duration age = ctx_.now - op.since;
    if (waits_.empty() && age > std::min(kShownAge, ctx_.view().plan.detect))
      waits_ = ToString(name) + " for " + WaitsFor(op);
    if (!said && age > std::max(op.next_word, ctx_.view().plan.detect)) {
      said = true;  // the oldest speaks for all
      op.next_word = 2 * age;
      ctx_.AddNote(
          "operation_waits",
          {{"epoch", ToString(ctx_.view().epoch)}, {"op", ToString(name)}, {"age_ms", Ms(age)}, {"for", WaitsFor(op)}},
          Severity::kWarning);
    }
    if (!op.overdue.empty() || !op.deadline) continue;
    if (ctx_.now < *op.deadline) {
      WatchBy(op.deadline);
      continue;
    }
    op.overdue = ctx_.NameOf(ctx_.self) + " has waited " + std::to_string(Ms(age)) + " ms for operation " +
                 ToString(name) + ", last for " + WaitsFor(op);
    overdue = op.overdue;
  }
  if (!overdue.empty() && ctx_.views.installed()) {
    ctx_.views.running() ? membership_.Trouble(overdue) : membership_.SendReport(overdue);
  }
  if (ctx_.views.running()) BarkIfStuck();
  if (ctx_.views.running()) BlameTheHung();
}

// Who it is the master finds, from what all say their trainers have submitted; until it asks, everything goes on. Not
// while somebody may wait for an operation that only needs time: one that all have submitted, or whose result is still
// on its way to others.
void OperationWatch::BlameTheHung() {
  if (ctx_.view().hung == Duration::zero()) return;
  const auto needs_time = [this](const auto& entry) {
    const bool is_over = entry.second.has_outcome() && table_.AllHold(entry.second, ctx_.view());
    return laggards_.AllHave(entry.first) && !is_over;
  };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), needs_time)) return;
  std::string why;
  for (auto& entry : table_.ops()) {
    const OpName& name = entry.first;
    Operation& op = entry.second;
    if (op.has_outcome()) continue;
    std::vector<PeerId> hung;
    std::copy_if(ctx_.view().members.begin(), ctx_.view().members.end(), std::back_inserter(hung), [&](PeerId member) {
      return member != ctx_.self && laggards_.HoldsUp(name, member, ctx_.view().hung, ctx_.now);
    });
    if (hung.empty()) continue;
    op.hung_for = std::move(hung);  // until the view ends: the master may only be about to ask
    op.hung_in = ctx_.view().epoch;
    why = "the trainer of " + ctx_.NameOf(op.hung_for.front()) + " has submitted nothing for " +
          std::to_string(Ms(ctx_.view().hung)) + " ms, and operation " + ToString(name) + " waits for it";
  }
  if (why.empty()) return;
  laggards_.BeginAnew(ctx_.now);  // the master may find that nobody goes
  membership_.SendReport(why);
}

// A trainer that is still copying an input in is a reason for everybody to wait.
Duration OperationWatch::StillFor() const {
  const auto is_staging = [](const auto& entry) { return IsStaging(entry.second); };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), is_staging)) return {};
  return watchdog_.StillFor(ctx_.now);
}

ChannelSeqs OperationWatch::SubmittedSeqs() const {
  ChannelSeqs next = table_.NextSeqs();
  if (RINGWAY_MUTANT(kTrustStaging)) return next;
  for (const auto& [name, op] : table_.ops()) {
    const bool stalled = IsStaging(op) && ctx_.now - op.staged_at > ctx_.view().plan.detect;
    if (stalled) next[name.channel] = std::min(next[name.channel], name.seq);
  }
  return next;
}

void OperationWatch::BarkIfStuck() {
  const Duration still = StillFor();
  if (still == Duration::zero()) return;
  for (const auto& [name, op] : table_.ops()) {
    if (op.told || !watchdog_.IsStuck(name, ctx_.view().members, ctx_.self, ctx_.now)) continue;
    const std::string what = "operation " + ToString(name) + " is stuck at " + ctx_.NameOf(ctx_.self) +
                             ", waiting for " + (op.has_outcome() ? "others to hold its result" : WaitsFor(op));
    ctx_.AddNote("operation_stuck",
                 {{"epoch", ToString(ctx_.view().epoch)},
                  {"op", ToString(name)},
                  {"still_ms", Ms(still)},
                  {"text", what + "; a fault of ringwayd: the view is aborted and its operations start anew"}},
                 Severity::kError);
    watchdog_.Bark(op.output_bytes(), ctx_.now);
    ++ctx_.counts.ops_stuck;
    return membership_.Trouble(what);
  }
}

}  // namespace ringway::agreement
