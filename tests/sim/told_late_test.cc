// A planted bug that random worlds hardly ever show: it takes an UpdateView that a rank learns of in a later view, and
// then the loss of all that learned of it in time.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <variant>

#include "daemon/agreement/peer.h"
#include "daemon/buffers/trainer_buffers.h"
#include "proto/mutation.h"

namespace ringway::sim {
namespace {

using agreement::Peer;
using mutation::Mutant;

constexpr PeerId kMe{1};
constexpr PeerId kPartner{2};

control::ViewFor ViewOf(std::uint32_t counter, std::uint32_t world) {
  control::ViewFor message;
  message.set_peer(kMe.value);
  control::View& view = *message.mutable_view();
  view.set_epoch(Epoch::Of(1, counter).value);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    view.add_members()->set_peer_id(rank + 1);
    view.add_ring(rank);
  }
  return message;
}

std::optional<control::Report> TakeReport(Peer& peer) {
  std::optional<control::Report> report;
  for (const agreement::Action& action : peer.TakeActions()) {
    const auto* said = std::get_if<agreement::ToMaster>(&action);
    if (said != nullptr && said->message.has_report()) report = said->message.report();
  }
  return report;
}

// The view that an UpdateView has adopted, as a peer reports it that has learned of it only in the view after that one;
// nothing if it reports none.
std::optional<Epoch> ReportedAfterAll() {
  Peer peer(kMe, "g", {});
  const TimePoint now{};
  peer.OnView(ViewOf(1, 2), now);
  control::ViewFor prepared = ViewOf(2, 3);
  prepared.set_prepared(true);
  peer.OnView(prepared, now);
  agreement::Submission submission;
  submission.token = 1;
  submission.descriptor = {OpKind::kUpdateView, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};
  submission.buffers = std::make_shared<buffers::TrainerBuffers>();
  EXPECT_TRUE(peer.Submit(std::move(submission), now).ok());
  control::ViewFor later = ViewOf(3, 2);
  control::Verdict& verdict = *later.mutable_view()->add_verdicts();
  verdict.set_seq(1);
  verdict.set_result_epoch(Epoch::Of(1, 1).value);
  verdict.set_prepared_epoch(Epoch::Of(1, 2).value);
  for (const PeerId member : {kMe, kPartner}) verdict.add_contributors(member.value);
  verdict.add_holders(kPartner.value);
  peer.OnView(later, now);
  (void)peer.TakeActions();
  peer.OnAbort(Epoch::Of(1, 3), now);
  const std::optional<control::Report> report = TakeReport(peer);
  if (!report || report->ops_size() == 0) return std::nullopt;
  return Epoch(report->ops(0).prepared_epoch());
}

TEST(ToldLate, AnUpdateViewIsReportedInALaterViewTooAndTheMutantThatDoesNotIsFound) {
  EXPECT_EQ(ReportedAfterAll(), Epoch::Of(1, 2));
  mutation::active = Mutant::kReportOldUpdate;
  EXPECT_NE(ReportedAfterAll(), Epoch::Of(1, 2));
  mutation::active = Mutant::kNone;
}

}  // namespace
}  // namespace ringway::sim
