#include "daemon/agreement/op_words.h"

#include <limits>

#include "daemon/agreement/messages.h"
#include "daemon/agreement/partners.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

void OpWords::SendReady(Operation& op) {
  op.ready_due.reset();
  const Rank self = *ctx_.view().RankOf(ctx_.self);
  for (const PeerId partner : PartnersOf(ctx_, op)) {
    const Descriptor descriptor = op.DescriptorWith(self, *ctx_.view().RankOf(partner));
    links_.Send(partner, ReadyMessage(ctx_.view().epoch, op.name, descriptor));
  }
}

void OpWords::SendLateReadies() {
  if (!ctx_.views.running() || RINGWAY_MUTANT(kNeverReadyLate)) return;
  for (auto& [name, op] : table_.ops()) {
    if (!op.is_running() || op.fetching || !op.ready_due || ctx_.now < *op.ready_due) continue;
    RINGWAY_REACHED(kSayReadyLate);
    SendReady(op);
  }
}

void OpWords::SendDone(const OpName& name) { links_.Broadcast(DoneMessage(ctx_.view().epoch, name)); }

void OpWords::OnFetch(PeerId from, const OpName& name) {
  Operation* op = table_.Find(name);
  if (op != nullptr && op->can_be_fetched()) return launcher_.Serve(*op, from);
  ctx_.AddNote("fetch_refused", {{"op", ToString(name)}, {"from", ctx_.NameOf(from)}}, Severity::kWarning);
}

void OpWords::OnResend(PeerId from, const control::Resend& resend) {
  Operation* op = table_.Find({ChannelId(resend.channel()), resend.seq()});
  const auto rank = ctx_.view().RankOf(from);
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint16_t>::max();
  if (op == nullptr || !op->attempt.live() || op->fetching || !rank || resend.step() > kMax || resend.chunk() > kMax)
    return;
  RINGWAY_REACHED(kResendSegment);
  transfer_.queue.MarkReady(op->attempt, from);  // it asks only for what it runs
  op->attempt.executor().Resend(*rank, static_cast<std::uint16_t>(resend.step()),
                                static_cast<std::uint16_t>(resend.chunk()), resend.segment());
  ++ctx_.counts.segments_resent;
}

void OpWords::Describe(control::Report& report, const control::OpReport& last_update) const {
  for (const auto& [name, op] : table_.ops()) *report.add_ops() = ReportOf(op, ctx_.view().epoch);
  const OpName update{ChannelId(last_update.channel()), last_update.seq()};
  if (update.seq != 0 && !table_.ops().contains(update)) *report.add_ops() = last_update;
  SeqsTo(table_.FinishedUptoAll(), *report.mutable_finished_upto());
  for (const OpTable::Run& run : table_.FinishedBeyondAll()) {
    control::SeqRange& finished = *report.add_finished_beyond();
    finished.set_channel(run.channel.value);
    finished.set_first(run.first);
    finished.set_last(run.last);
  }
}

}  // namespace ringway::agreement
