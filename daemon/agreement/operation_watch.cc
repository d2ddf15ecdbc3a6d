#include "daemon/agreement/operation_watch.h"

#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

constexpr Duration kShownAge = std::chrono::seconds(1);  // of an operation whose wait status shows

std::uint32_t WireMs(Duration time) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(time.count() / 1000, std::numeric_limits<std::uint32_t>::max()));
}

bool IsStaging(const Operation& op) {
  return !op.has_outcome() && op.attempt.buffers->input_ready() < op.input_bytes();
}

std::int64_t Ms(Duration time) { return time.count() / 1000; }

}  // namespace

bool OperationWatch::NeedsNoInputOf(const Operation& op, PeerId member) {
  const PeerId from = op.submission.descriptor.without_from();
  return from != PeerId() && member >= from;
}

// Uses what is known here, or was when the view broke: a rank has submitted the operation if it has sent READY or any
// segment of it, or said so in a heartbeat.
std::vector<PeerId> OperationWatch::AwaitedBy(const Operation& op) const {
  std::vector<PeerId> awaited;
  for (const PeerId member : ctx_.view().members) {
    if (member == ctx_.self || NeedsNoInputOf(op, member) || op.attempt.ready_peers.contains(member) ||
        op.holders.contains(member))
      continue;
    if (!stragglers_.Has(member, op.name)) awaited.push_back(member);
  }
  return awaited;
}

std::string OperationWatch::WaitsFor(const Operation& op) const {
  std::string names;
  for (const PeerId member : AwaitedBy(op)) names += (names.empty() ? "" : ",") + ctx_.NameOf(member);
  if (!names.empty()) return names;
  return ctx_.views.frozen() ? "a new view" : "data";
}

void OperationWatch::OnView() {
  ctx_.watchdog.OnView(ctx_.now);
  stragglers_.OnView(ctx_.view(), ctx_.now);
}

void OperationWatch::Heard(PeerId from, const control::PeerHeartbeat& heartbeat, bool early) {
  ctx_.watchdog.Heard(from, {.still = std::chrono::milliseconds(heartbeat.still_ms()),
                             .patience = std::chrono::milliseconds(heartbeat.patience_ms()),
                             .next = SeqsFrom(heartbeat.next_seq())});
  if (early) return;
  Progress theirs{.next = SeqsFrom(heartbeat.next_seq()),
                  .messages = heartbeat.messages(),
                  .runs = heartbeat.messages_run(),
                  .stalls = heartbeat.messages_stall()};
  const bool needed = AnyMessage([&](const Message& message) { return Needs(message, from, theirs); });
  stragglers_.Heard(from, std::move(theirs), table_.NextSeqs(), needed, ctx_.now);
}

bool OperationWatch::AnyMessage(const std::function<bool(const Message&)>& is_so) const {
  return std::any_of(messages_.open().begin(), messages_.open().end(),
                     [&](const auto& open) { return is_so(open.second); });
}

// Returns whether it waits for the trainer of `other`.
bool OperationWatch::Needs(const Message& message, PeerId other, const Progress& theirs) {
  return message.other() == other && (message.needs_other() || (theirs.stalls && !message.sends()));
}

void OperationWatch::Describe(control::PeerHeartbeat& heartbeat) const {
  SeqsTo(table_.CompleteUptoAll(), *heartbeat.mutable_complete_upto());
  if (RINGWAY_MUTANT(kAcknowledgeAhead)) {
    for (control::ChannelSeq& seq : *heartbeat.mutable_complete_upto()) seq.set_seq(seq.seq() + 1);
  }
  SeqsTo(SubmittedSeqs(), *heartbeat.mutable_next_seq());
  if (!RINGWAY_MUTANT(kCountNoMessages)) heartbeat.set_messages(messages_.submitted());
  heartbeat.set_messages_run(AnyMessage([](const Message& message) { return message.runs(); }));
  heartbeat.set_messages_stall(
      AnyMessage([this](const Message& message) { return message.stalls(ctx_.view().plan.detect, ctx_.now); }));
  heartbeat.set_still_ms(WireMs(StillFor()));
  heartbeat.set_patience_ms(WireMs(ctx_.watchdog.patience()));
}

void OperationWatch::Describe(control::MessageWaits& waits) const {
  if (!RINGWAY_MUTANT(kCountNoMessages)) waits.set_submitted(messages_.submitted());
  waits.set_runs(AnyMessage([](const Message& message) { return message.runs(); }));
  for (const PeerId member : ctx_.view().members) {
    const auto awaits = [&](const Message& message) { return message.other() == member && message.awaits_other(); };
    if (AnyMessage(awaits)) waits.add_awaits(member.value);
    const auto found = hung_.find(member);
    if (hung_in_ != ctx_.view().epoch || found == hung_.end()) continue;
    const Progress theirs = stragglers_.ProgressOf(member);
    if (!AnyMessage([&](const Message& message) { return Needs(message, member, theirs); })) continue;
    control::MessageWaits::Hung& hung = *waits.add_hung();
    hung.set_peer(member.value);
    hung.set_submitted(found->second);
  }
}

void OperationWatch::Tick() {
  if (ctx_.now < next_look_ && ctx_.now < table_.next_deadline()) return;
  table_.ForgetDeadlines();
  next_look_ = ctx_.now + ctx_.view().plan.heartbeat;
  wait_ = {};
  bool said = false;
  std::string overdue;
  for (auto& [name, op] : table_.ops()) {
    const Duration age = ctx_.now - op.waiting.since;
    if (op.has_outcome()) {
      if (!op.awaits_input(ctx_.self) || !IsNewlyOverdue(op)) continue;
      op.obstacles.overdue = "its input is incomplete after " + std::to_string(Ms(age)) + " ms";
      table_.MarkDue(name);
      continue;
    }
    if (wait_.what.empty() && age > std::min(kShownAge, ctx_.view().plan.detect))
      wait_ = {.what = ToString(name), .op = name, .age = age, .on = AwaitedBy(op), .reason = WaitsFor(op)};
    if (!said && age > std::max(op.waiting.next_word, ctx_.view().plan.detect)) {
      said = true;  // the oldest speaks for all
      op.waiting.next_word = 2 * age;
      ctx_.AddNote(
          "operation_waits",
          {{"epoch", ToString(ctx_.view().epoch)}, {"op", ToString(name)}, {"age_ms", Ms(age)}, {"for", WaitsFor(op)}},
          Severity::kWarning);
    }
    if (!IsNewlyOverdue(op)) continue;
    op.obstacles.overdue = ctx_.NameOf(ctx_.self) + " has waited " + std::to_string(Ms(age)) + " ms for operation " +
                           ToString(name) + ", last for " + WaitsFor(op);
    overdue = op.obstacles.overdue;
  }
  LookAtMessages();
  if (!overdue.empty() && ctx_.views.installed()) {
    ctx_.views.running() ? membership_.RequestRecovery(overdue) : membership_.SendReport(overdue);
  }
  if (ctx_.views.running()) FireIfStuck();
  if (ctx_.views.running()) BlameTheHung();
}

bool OperationWatch::IsNewlyOverdue(Operation& op) {
  if (!op.obstacles.overdue.empty() || !op.waiting.deadline) return false;
  if (ctx_.now >= *op.waiting.deadline) return true;
  table_.SetDeadline(op, *op.waiting.deadline);
  return false;
}

// Status shows them after operations.
void OperationWatch::LookAtMessages() {
  const std::uint64_t own = Progress{.next = table_.NextSeqs(), .messages = messages_.submitted()}.total();
  if (std::exchange(own_, own) != own) own_since_ = ctx_.now;
  for (const auto& [name, message] : messages_.open()) {
    const Duration age = ctx_.now - message.since;
    if (!wait_.what.empty() || age <= std::min(kShownAge, ctx_.view().plan.detect)) continue;
    wait_ = {.what = ToString(name), .op = {}, .age = age, .on = {}, .reason = "data"};
    if (!message.awaits_other()) continue;
    wait_.on = {message.other()};
    wait_.reason = ctx_.NameOf(message.other());
  }
}

// Reports that a trainer hangs. The master finds out which, from what all trainers have submitted; until it asks,
// everything goes on. Blames nobody while an operation only needs time: one that all have submitted, or whose result is
// still on its way to others.
void OperationWatch::BlameTheHung() {
  if (ctx_.view().hung == Duration::zero()) return;
  const auto needs_time = [this](const auto& entry) {
    const bool is_over = entry.second.has_outcome() && table_.AllHold(entry.second, ctx_.view());
    return stragglers_.AllHave(entry.first) && !is_over;
  };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), needs_time)) return;
  const std::string of_messages = BlameForMessages();
  const std::string of_operations = BlameForOperations();
  const std::string& why = of_operations.empty() ? of_messages : of_operations;
  if (why.empty()) return;
  stragglers_.BeginAnew(ctx_.now);  // the master may find that nobody goes
  membership_.SendReport("the trainer of " + why);
}

// Whom operations wait for stays with them until the view ends: the master may only be about to ask.
std::string OperationWatch::BlameForOperations() {
  std::string why;
  for (auto& entry : table_.ops()) {
    const OpName& name = entry.first;
    Operation& op = entry.second;
    const bool is_agreed = op.inputs.epoch == ctx_.view().epoch && op.submission.descriptor.agrees_on_inputs();
    if (op.has_outcome() || is_agreed) continue;  // nothing waits for a trainer
    std::vector<PeerId> hung;
    std::copy_if(ctx_.view().members.begin(), ctx_.view().members.end(), std::back_inserter(hung), [&](PeerId member) {
      const bool is_awaited = member != ctx_.self && !NeedsNoInputOf(op, member);
      return is_awaited && stragglers_.HoldsUp(name, member, ctx_.view().hung, ctx_.now);
    });
    if (hung.empty()) continue;
    op.obstacles.hung_for = std::move(hung);
    op.obstacles.hung_in = ctx_.view().epoch;
    why = SilentFor(op.obstacles.hung_for.front()) + "operation " + ToString(name) + " waits for it";
  }
  return why;
}

// A trainer that goes on with something else blames nobody: it may only listen.
std::string OperationWatch::BlameForMessages() {
  std::string why;
  if (ctx_.now - own_since_ < ctx_.view().hung) return why;
  std::map<PeerId, std::uint64_t> hung;
  for (const auto& [name, message] : messages_.open()) {
    const PeerId other = message.other();
    const Progress theirs = stragglers_.ProgressOf(other);
    if (!Needs(message, other, theirs) || !stragglers_.HoldsUp(other, ctx_.view().hung, ctx_.now)) continue;
    hung[other] = theirs.total();
    why = SilentFor(other) + ToString(name) + " waits for it";
  }
  if (hung.empty()) return why;
  hung_ = std::move(hung);
  hung_in_ = ctx_.view().epoch;
  return why;
}

std::string OperationWatch::SilentFor(PeerId peer) const {
  return ctx_.NameOf(peer) + " has submitted nothing for " + std::to_string(Ms(ctx_.view().hung)) + " ms, and ";
}

// A trainer that is still copying an input in is a reason for everybody to wait.
Duration OperationWatch::StillFor() const {
  const auto is_staging = [](const auto& entry) { return IsStaging(entry.second); };
  if (std::any_of(table_.ops().begin(), table_.ops().end(), is_staging)) return {};
  return ctx_.watchdog.StillFor(ctx_.now);
}

ChannelSeqs OperationWatch::SubmittedSeqs() const {
  ChannelSeqs next = table_.NextSeqs();
  if (RINGWAY_MUTANT(kTrustStaging)) return next;
  for (const auto& [name, op] : table_.ops()) {
    const bool stalled = IsStaging(op) && ctx_.now - op.waiting.staged_at > ctx_.view().plan.detect;
    if (stalled) next[name.channel] = std::min(next[name.channel], name.seq);
  }
  return next;
}

void OperationWatch::FireIfStuck() {
  const Duration still = StillFor();
  if (still == Duration::zero()) return;
  for (const auto& [name, op] : table_.ops()) {
    const bool awaits_trainer = (!op.submitted && op.has_outcome()) || op.awaits_input(ctx_.self);
    if (op.is_reported() || awaits_trainer || !ctx_.watchdog.IsStuck(name, ctx_.view().members, ctx_.self, ctx_.now))
      continue;
    const std::string what = "operation " + ToString(name) + " is stuck at " + ctx_.NameOf(ctx_.self) +
                             ", waiting for " + (op.has_outcome() ? "others to hold its result" : WaitsFor(op));
    ctx_.AddNote("operation_stuck",
                 {{"epoch", ToString(ctx_.view().epoch)},
                  {"op", ToString(name)},
                  {"still_ms", Ms(still)},
                  {"text", what + "; a fault of ringwayd: the view is aborted and its operations start anew"}},
                 Severity::kError);
    ctx_.watchdog.Fire(op.output_bytes(), ctx_.now);
    ++ctx_.counts.ops_stuck;
    RINGWAY_REACHED(kBarkStuck);
    return membership_.RequestRecovery(what);
  }
}

}  // namespace ringway::agreement
