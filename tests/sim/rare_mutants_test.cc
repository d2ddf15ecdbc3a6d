// Planted bugs that random worlds hardly ever show, because each takes two losses at the right moments: scripts for one
// peer, or for the master.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "daemon/agreement/peer.h"
#include "daemon/buffers/trainer_buffers.h"
#include "proto/mutation.h"
#include "tests/sim/hung_scenarios.h"
#include "tests/sim/isolation_scenarios.h"
#include "tests/sim/master_scripts.h"
#include "tests/sim/masters_scenarios.h"
#include "tests/sim/scenario.h"
#include "tests/sim/state_scenarios.h"

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

// The code of an operation that a view's verdict commits, held by a member that the next view has lost with it.
std::optional<Code> OutcomeOfWhatIsLost() {
  Peer peer(kMe, "g", {});
  const TimePoint now{};
  peer.OnView(ViewOf(1, 3), now);
  std::vector<std::byte> input(16), output(16);
  agreement::Submission submission;
  submission.token = 1;
  submission.descriptor = {OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 4};
  submission.buffers =
      std::make_shared<buffers::TrainerBuffers>(buffers::TrainerBuffers::Places{.input = input.data(),
                                                                                .input_bytes = input.size(),
                                                                                .input_ready = input.size(),
                                                                                .output = output.data(),
                                                                                .output_bytes = output.size()});
  EXPECT_TRUE(peer.Submit(std::move(submission), now).ok());
  control::ViewFor committed = ViewOf(2, 2);
  control::Verdict& verdict = *committed.mutable_view()->add_verdicts();
  verdict.set_seq(1);
  verdict.set_result_epoch(Epoch::Of(1, 1).value);
  for (const PeerId member : {kMe, kPartner, PeerId(3)}) verdict.add_contributors(member.value);
  verdict.add_holders(kPartner.value);
  peer.OnView(committed, now);
  peer.OnView(ViewOf(3, 1), now);
  while (peer.HasWork()) peer.Work();
  std::optional<Code> reported;
  for (const agreement::Action& action : peer.TakeActions()) {
    if (const auto* complete = std::get_if<agreement::Complete>(&action)) reported = complete->outcome.code;
  }
  return reported;
}

TEST(VerdictOfAnEarlierView, IsForgottenAndTheMutantThatKeepsItIsFound) {
  EXPECT_EQ(OutcomeOfWhatIsLost(), Code::kOk);
  mutation::active = Mutant::kKeepOldVerdict;
  EXPECT_EQ(OutcomeOfWhatIsLost(), std::nullopt);
  mutation::active = Mutant::kNone;
}

class LateAccusation : public MasterScript {
 protected:
  ~LateAccusation() override { mutation::active = Mutant::kNone; }
};

TEST_F(LateAccusation, CostsTheDeadTheirPlaces) {
  AccuseTheDead();
  EXPECT_EQ(ViewOf(1).members_size(), 3);
  EXPECT_FALSE(Has(1, &control::FromMaster::has_evicted));
}

TEST_F(LateAccusation, AndTheMutantThatDropsTheAccuserIsFound) {
  mutation::active = Mutant::kDropForUnheard;
  AccuseTheDead();
  EXPECT_TRUE(Has(1, &control::FromMaster::has_evicted));
}

// The code of a gather on those that stay, whose root hears nobody and dies.
std::optional<Code> OutcomeOfAGatherWithoutItsRoot() {
  auto cluster = Formed(3);
  const auto status = cluster->StatusOf(0);
  std::uint8_t root = 0;
  while (PeerId(status.members[root].peer_id()) != cluster->IdOf(0)) ++root;
  for (const std::uint32_t leaf : {1U, 2U}) cluster->Silence(cluster->HostOf(leaf), cluster->HostOf(0));
  SubmitAll(*cluster, {0, 1, 2},
            {OpKind::kGather, DType::kF32, ReduceOp::kSum, Codec::kNone, Algorithm::kDirect, 100, root});
  const TimePoint began = cluster->now();
  cluster->RunUntil([&] { return cluster->now() - began > std::chrono::milliseconds(100); });
  cluster->Kill(0);
  if (!Finish(*cluster, {1, 2}) || !cluster->WhyBroken({1, 2}).empty()) return std::nullopt;
  return cluster->OutcomesOf(1).begin()->second.code;
}

TEST(GatherWithoutItsRoot, FailsAndTheMutantThatIsDoneBeforeItIsFound) {
  EXPECT_EQ(OutcomeOfAGatherWithoutItsRoot(), Code::kPeerLost);
  mutation::active = Mutant::kDoneBeforeRoot;
  EXPECT_EQ(OutcomeOfAGatherWithoutItsRoot(), Code::kOk);
  mutation::active = Mutant::kNone;
}

// Returns whether all learn that rank 2 has submitted a small operation by another algorithm, by which it waits for a
// rank that has nothing for it.
bool LearnOfAnotherAlgorithm() {
  auto cluster = Formed(4, {.stuck_after = std::chrono::minutes(1)});
  const auto members = cluster->StatusOf(0).members;
  for (const std::uint32_t node : Range(4)) {
    Descriptor descriptor = SumF32(kSmall);
    descriptor.schedule = PeerId(members[2].peer_id()) == cluster->IdOf(node) ? Algorithm::kTree : Algorithm::kNaive;
    cluster->Submit(node, descriptor);
  }
  return Finish(*cluster, Range(4)) && cluster->OutcomesOf(0).begin()->second.code == Code::kMismatch;
}

TEST(AnotherAlgorithm, IsLearnedOfAndTheMutantThatNeverComparesIsFound) {
  EXPECT_TRUE(LearnOfAnotherAlgorithm());
  mutation::active = Mutant::kNeverReadyLate;
  EXPECT_FALSE(LearnOfAnotherAlgorithm());
  mutation::active = Mutant::kNone;
}

// Returns how long small operations take that are more than the eager window holds.
Duration TimeBeyondTheWindow() {
  ClusterOptions options{.stuck_after = std::chrono::minutes(1)};
  options.master.eager_bytes_max = 20'000;
  auto cluster = Formed(4, options);
  const TimePoint began = cluster->now();
  for (int i = 0; i < 60; ++i) SubmitAll(*cluster, Range(4), SumF32(kSmall), static_cast<std::uint32_t>(i % 3));
  EXPECT_TRUE(Finish(*cluster, Range(4)));
  return cluster->now() - began;
}

TEST(SmallBeyondTheWindow, IsNotHeldUpAndTheMutantThatWaitsForLateReadiesIsFound) {
  EXPECT_LT(TimeBeyondTheWindow(), std::chrono::seconds(1));
  mutation::active = Mutant::kWindowStopsAll;
  EXPECT_GT(TimeBeyondTheWindow(), std::chrono::seconds(2));
  mutation::active = Mutant::kNone;
}

TEST(ReportedLate, AnUpdateViewIsReportedInALaterViewTooAndTheMutantThatDoesNotIsFound) {
  EXPECT_EQ(ReportedAfterAll(), Epoch::Of(1, 2));
  mutation::active = Mutant::kReportOldUpdate;
  EXPECT_NE(ReportedAfterAll(), Epoch::Of(1, 2));
  mutation::active = Mutant::kNone;
}

constexpr Duration kHung = std::chrono::seconds(20);

TEST(WhoReceivesFromAHungOne, StaysAndTheMutantThatBlamesItIsFound) {
  EXPECT_TRUE(StaysWhoReceives(kHung));
  mutation::active = Mutant::kBlameTheReceiving;
  EXPECT_FALSE(StaysWhoReceives(kHung));
  mutation::active = Mutant::kNone;
}

TEST(WhoExchangesMessages, StaysAndTheMutantThatCountsThemNotIsFound) {
  EXPECT_TRUE(StayWhoExchange(kHung));
  mutation::active = Mutant::kCountNoMessages;
  EXPECT_FALSE(StayWhoExchange(kHung));
  mutation::active = Mutant::kNone;
}

TEST(MemberWithoutLinks, GoesAloneAndTheMutantThatJudgesByTheFirstWordsIsFound) {
  constexpr Duration kSpread = std::chrono::milliseconds(200);  // some die after the first accusation was heard
  EXPECT_EQ(LossesOfHealthy(true, kSpread, 3), 0U);
  mutation::active = Mutant::kWeighNothing;
  EXPECT_GT(LossesOfHealthy(true, kSpread, 3), 0U);
  mutation::active = Mutant::kNone;
}

TEST(MemberWithoutLinks, GoesAloneAndTheMutantThatIgnoresBrokenLinksIsFound) {
  constexpr Duration kSpread = std::chrono::milliseconds(2500);  // more than any wait for further accusations
  EXPECT_EQ(LossesOfHealthy(false, kSpread, 3), 0U);
  mutation::active = Mutant::kIgnoreSuspicions;
  EXPECT_GT(LossesOfHealthy(false, kSpread, 3), 0U);
  mutation::active = Mutant::kNone;
}

TEST(NewcomerThatTakesTheState, StaysOutAndTheMutantThatReportsItIsFound) {
  EXPECT_TRUE(StaysOutWhileItTakes());
  mutation::active = Mutant::kAdmitTheHeld;
  EXPECT_FALSE(StaysOutWhileItTakes());
  mutation::active = Mutant::kNone;
}

TEST(NewcomerThatTakesTheState, IsAdmittedThenAndTheMutantThatKeepsItIsFound) {
  EXPECT_TRUE(IsAdmittedOnceItHasTheState());
  mutation::active = Mutant::kKeepHeld;
  EXPECT_FALSE(IsAdmittedOnceItHasTheState());
  mutation::active = Mutant::kNone;
}

TEST(NewcomerThatTakesTheState, IsKnownToAllMembersAndTheMutantThatHidesItIsFound) {
  EXPECT_TRUE(AllMembersHearOfIt());
  mutation::active = Mutant::kAskNobody;
  EXPECT_FALSE(AllMembersHearOfIt());
  mutation::active = Mutant::kNone;
}

// Each in worlds of masters that share a store.
TEST(MastersThatShareAStore, AgreeAndTheMutantsThatLeaveOutTheFenceOrTheOrderAreFound) {
  constexpr std::uint64_t kSeeds = 100;
  EXPECT_EQ(RunMasters(1, kSeeds), "");
  for (const Mutant mutant : {Mutant::kIgnoreFence, Mutant::kIgnoreOrder}) {
    mutation::active = mutant;
    EXPECT_NE(RunMasters(1, kSeeds), "");
    mutation::active = Mutant::kNone;
  }
}

TEST(PeersThatWouldTakeTheState, FormTheirGroupAndTheMutantThatHoldsThemIsFound) {
  EXPECT_TRUE(FormsWhereAllWouldTake());
  mutation::active = Mutant::kHoldTheForming;
  EXPECT_FALSE(FormsWhereAllWouldTake());
  mutation::active = Mutant::kNone;
}

}  // namespace
}  // namespace ringway::sim
