// Worlds that apply a rule of the protocol which random worlds never do, or in one of thousands (proto/rules.h).
#pragma once

#include <map>

#include "daemon/agreement/peer.h"
#include "master/coordination/verdicts.h"
#include "proto/mutation.h"
#include "proto/rules.h"
#include "tests/sim/hung_scenarios.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {

using rules::Rule;

inline void JoinAGroupWithOtherOptions() {
  auto cluster = Formed(2);
  const std::uint32_t node = cluster->Join(0, {.fail_on_peer_loss = true});
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Ended(node); }));
  EXPECT_EQ(cluster->EndedCode(node), Code::kJoinRefused);
}

inline void EvictByOrder() {
  auto cluster = Formed(3);
  cluster->Evict(1);
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Ended(1); }));
  EXPECT_EQ(cluster->EndedCode(1), Code::kEvicted);
  SubmitAll(*cluster, {0, 2}, SumF32(kSmall));
  EXPECT_TRUE(Finish(*cluster, {0, 2}));
}

// Each hears two of the other four: no two of a side agree on who the others are.
inline void CutARingOfPairs() {
  auto cluster = Formed(5);
  for (const std::uint32_t node : Range(5)) cluster->CutPair(node, (node + 1) % 5);
  const auto count = [&] { return rules::reached[static_cast<std::size_t>(Rule::kLargestSetStays)]; };
  EXPECT_TRUE(cluster->RunUntil([&] { return count() > 0; }));
}

inline control::Report HoldsOutcome(Epoch epoch) {
  control::Report report;
  control::OpReport& op = *report.add_ops();
  op.set_seq(1);
  op.set_stage(control::OP_STAGE_COMPLETE);
  op.set_result_epoch(epoch.value);
  return report;
}

// No world gets there.
inline void ReportTwoOutcomes() {
  const std::map<PeerId, control::Report> reports = {{PeerId(1), HoldsOutcome(Epoch::Of(1, 1))},
                                                     {PeerId(2), HoldsOutcome(Epoch::Of(1, 2))}};
  const auto verdicts = DecideVerdicts(reports, {});
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(CodeFromWire(verdicts.front().code()), Code::kInternal);
}

inline void BreakLinksForAnHour() {
  auto cluster = Formed(2);
  for (int seconds = 0; seconds < 3100 && !cluster->Ended(0) && !cluster->Ended(1); ++seconds) {
    cluster->CutControl(0, 1);
    Pass(*cluster, std::chrono::milliseconds(1100));
  }
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Ended(0) || cluster->Ended(1); }));
}

// Their messages wait on the way, and each such request is one.
inline void TakeNoControlMessages() {
  ClusterOptions options{.lanes = 9, .lanes_max = 12};
  options.master.detect_ms = 60'000;
  options.master.heartbeat_ms = 5'000;
  auto cluster = Formed(2, options);
  cluster->CutPair(0, 1);
  for (std::uint32_t i = 0; i < 100'000; ++i) cluster->WantLanes(0, 1, 10 + i % 2);
  Pass(*cluster, std::chrono::seconds(1));
}

inline void ReceiveTooMuchAhead() {
  auto cluster = Formed(2);
  for (int i = 0; i < 2'200; ++i) cluster->SubmitMessage(1, Receives(cluster->IdOf(0), kLarge));
  Pass(*cluster, std::chrono::seconds(1));
}

inline void CancelTooMuchAhead() {
  auto cluster = Formed(2);
  for (std::uint64_t token = 1; token != 0;) {
    token = cluster->SubmitMessage(0, Sends(cluster->IdOf(1), 10));
    if (token != 0) cluster->CancelMessage(0, token);
    ASSERT_TRUE(FinishMessages(*cluster, {0}));
  }
}

inline void SendMoreThanThereIsRoomFor() {
  auto cluster = Formed(2, {.memory_max = 10'000});
  for (int i = 0; i < 20; ++i) cluster->SubmitMessage(0, Sends(cluster->IdOf(1), 3000));
  Pass(*cluster, std::chrono::milliseconds(500));
  for (int i = 0; i < 20; ++i) cluster->SubmitMessage(1, Receives(cluster->IdOf(0), 3000));
  EXPECT_TRUE(FinishMessages(*cluster, {0, 1}));
}

// Uses a planted bug, the only way to get there.
inline void LoseSegmentsForGood() {
  mutation::active = mutation::Mutant::kForgetLostSegments;
  auto cluster = Formed(3, {.expects_stuck = true});
  SubmitAll(*cluster, Range(3), SumF32(kLarge));
  cluster->RunEvents(40);
  for (const std::uint32_t lane : {0U, 1U}) cluster->CutLane(0, 1, LaneId(lane));
  EXPECT_TRUE(Finish(*cluster, Range(3)));
  mutation::active = mutation::Mutant::kNone;
}

inline void HearALieAboutTheView() {
  auto cluster = Formed(3);
  cluster->HearAbort(1, Epoch::Of(9, 9));
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Ended(1); }));
  SubmitAll(*cluster, {0, 2}, SumF32(kSmall));
  EXPECT_TRUE(Finish(*cluster, {0, 2}));
}

inline void CutOffTheMasterForLong() {
  ClusterOptions options;
  options.master.forget_ms = 5'000;
  auto cluster = Formed(2, options);
  cluster->CutOffMaster();
  Pass(*cluster, std::chrono::seconds(20));
  cluster->RejoinMaster();
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Ended(0) && cluster->Ended(1); }));
}

// A newcomer's channels begin where those of the others are: what they sent before is finished.
inline void SendWhatIsFinished() {
  agreement::Peer peer(PeerId(1), "g", {});
  control::ViewFor message;
  message.set_peer(1);
  control::View& view = *message.mutable_view();
  view.set_epoch(Epoch::Of(1, 1).value);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    view.add_members()->set_peer_id(rank + 1);
    view.add_ring(rank);
  }
  view.add_next_seq()->set_seq(5);
  peer.OnView(message, {});
  SegmentHeader header;
  header.epoch = Epoch::Of(1, 1);
  header.op = {ChannelId(0), 4};
  const links::LinkId lane{.other = PeerId(2), .control = false, .lane = LaneId(0)};
  const Result<agreement::Inbound> inbound = peer.OnHeader(lane, header);
  ASSERT_TRUE(inbound.ok());
  EXPECT_EQ(inbound.value().kind, agreement::Inbound::Kind::kDiscard);
}

inline void WantFewerLanes() {
  auto cluster = Formed(2, {.lanes = 9, .lanes_max = 12});
  for (const std::uint32_t lanes : {40U, 10U}) {
    for (const std::uint32_t node : Range(2)) cluster->WantLanes(node, 1 - node, lanes);
    EXPECT_TRUE(cluster->RunUntil([&] { return cluster->LanesUp(0, 1) == std::min(lanes, 12U); }));
  }
}

}  // namespace ringway::sim
