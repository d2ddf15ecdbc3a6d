// Sends and recvs in scripted clusters: each outcome, and deaths, freezes and broken links at every point.
#include <functional>

#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

constexpr std::uint64_t kLargeBytes = 1 << 20;

class PointToPointTest : public testing::Test {
 protected:
  void Form(std::uint32_t world, const ClusterOptions& options = {}) { cluster_ = Formed(world, options); }
  std::uint64_t Send(std::uint32_t from, std::uint32_t to, std::uint64_t count, std::uint32_t tag = 0) {
    return cluster_->SubmitMessage(from, Sends(cluster_->IdOf(to), count, tag));
  }
  std::uint64_t Recv(std::uint32_t to, std::uint32_t from, std::uint64_t count, std::uint32_t tag = 0) {
    return cluster_->SubmitMessage(to, Receives(cluster_->IdOf(from), count, tag));
  }
  bool Finish(const Nodes& nodes) { return FinishMessages(*cluster_, nodes); }
  std::uint64_t Count(Code code) const {
    const auto counts = cluster_->messages().Counts();
    return counts.contains(code) ? counts.at(code) : 0;
  }
  void Pass(int ms) {
    const TimePoint end = cluster_->now() + std::chrono::milliseconds(ms);
    ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->now() >= end; }));
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(PointToPointTest, WhoeverSubmitsFirstTheBytesArrive) {
  Form(3);
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{70'000}, kLargeBytes}) {
    Send(0, 1, count);
    Pass(50);
    Recv(1, 0, count);
    Recv(0, 2, count);
    Pass(50);
    Send(2, 0, count);
    ASSERT_TRUE(Finish(Range(3))) << count;
  }
  EXPECT_EQ(Count(Code::kOk), 8U);
  CheckAgreement(*cluster_, Range(3));
}

TEST_F(PointToPointTest, ManyAreInFlightAndEachTagIsMatchedInItsOwnOrder) {
  Form(2);
  for (std::uint32_t i = 0; i < 60; ++i) Send(0, 1, 100 * i, i % 5);
  for (std::uint32_t tag = 5; tag-- > 0;) {
    for (std::uint32_t i = tag; i < 60; i += 5) Recv(1, 0, 100 * i, tag);
  }
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 60U);
}

// A message that nobody receives costs its receiver the window's bytes, and no more.
TEST_F(PointToPointTest, WhatIsNotReceivedIsHeldWithinTheWindow) {
  ClusterOptions options;
  options.master.eager_bytes_max = 100'000;
  Form(2, options);
  for (int i = 0; i < 50; ++i) Send(0, 1, 4000);
  Send(0, 1, kLargeBytes, 1);
  Pass(500);
  EXPECT_GT(cluster_->StatusOf(1).held_bytes, 10'000U);
  EXPECT_LE(cluster_->StatusOf(1).held_bytes, 25'000U);
  for (int i = 0; i < 50; ++i) Recv(1, 0, 4000);
  Recv(1, 0, kLargeBytes, 1);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 51U);
  EXPECT_EQ(cluster_->StatusOf(1).held_bytes, 0U);
}

TEST_F(PointToPointTest, WhereThereIsNoRoomItIsSentAgain) {
  ClusterOptions options;
  options.memory_max = 10'000;
  Form(2, options);
  for (int i = 0; i < 20; ++i) Send(0, 1, 3000);
  Pass(500);
  for (int i = 0; i < 20; ++i) Recv(1, 0, 3000);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 20U);
}

TEST_F(PointToPointTest, AnotherSizeIsAMismatchAtBothWhoeverComesFirst) {
  Form(2);
  Send(0, 1, 10);
  Pass(50);
  Recv(1, 0, 11);
  ASSERT_TRUE(Finish({0, 1}));
  Recv(1, 0, 10);
  Pass(50);
  Send(0, 1, 11);
  ASSERT_TRUE(Finish({0, 1}));
  Send(0, 1, kLargeBytes);
  Recv(1, 0, 5);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kMismatch), 3U);
  Send(0, 1, 10);
  Recv(1, 0, 10);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 1U) << "the next one is matched again";
}

TEST_F(PointToPointTest, CancelledByEitherEndBeforeTheOtherHasSubmittedIt) {
  Form(2);
  cluster_->CancelMessage(0, Send(0, 1, 10));
  ASSERT_TRUE(Finish({0}));
  Recv(1, 0, 10);
  ASSERT_TRUE(Finish({1}));
  cluster_->CancelMessage(1, Recv(1, 0, 10));
  Pass(50);
  Send(0, 1, 10);
  ASSERT_TRUE(Finish({0}));
  EXPECT_EQ(Count(Code::kCancelled), 2U);
  Send(0, 1, 10);
  Recv(1, 0, 10);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 1U);
}

TEST_F(PointToPointTest, OneThatIsOverdueFailsAtBoth) {
  ClusterOptions options;
  options.op_deadline = std::chrono::milliseconds(200);
  Form(2, options);
  Send(0, 1, 10);
  Pass(1000);
  Recv(1, 0, 10);
  Recv(1, 0, 10, 1);
  Pass(1000);
  Send(0, 1, 10, 1);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kDeadline), 2U);
}

// Cancellations that no partner catches up with are bounded, and so is what it remembers.
TEST_F(PointToPointTest, WhoeverRunsAheadOfItsPartnerIsStopped) {
  Form(2);
  std::uint64_t submitted = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t token = Send(0, 1, 10);
    if (token == 0) break;
    ++submitted;
    cluster_->CancelMessage(0, token);
    ASSERT_TRUE(Finish({0}));
  }
  EXPECT_EQ(submitted, 1024U);
  for (std::uint64_t i = 0; i < submitted; ++i) ASSERT_NE(Recv(1, 0, 10), 0U);
  Pass(100);
  EXPECT_NE(Send(0, 1, 10), 0U);
  Recv(1, 0, 10);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 1U);
}

// One of three peers is lost at every point of the others' messages, and of their messages with it.
TEST_F(PointToPointTest, ALossAtAnyPointEndsItsMessagesAndNoOthers) {
  for (std::uint64_t events = 0; events < 400; events += 7 * kSweep) {
    Form(3);
    Send(0, 1, kLargeBytes);
    Recv(1, 0, kLargeBytes);
    Send(0, 2, 30'000);
    Recv(2, 0, 30'000);
    Send(2, 1, kLargeBytes, 1);
    Recv(1, 2, kLargeBytes, 1);
    Recv(0, 2, 5, 9);  // never sent
    cluster_->RunEvents(events);
    cluster_->Kill(2);
    ASSERT_TRUE(Finish({0, 1})) << "after " << events << " events: " << cluster_->failure();
    CheckAgreement(*cluster_, {0, 1});
    EXPECT_GE(Count(Code::kOk), 1U);
  }
}

TEST_F(PointToPointTest, BrokenLinksAtAnyPointLoseNothing) {
  for (std::uint64_t events = 0; events < 300; events += 5 * kSweep) {
    Form(2);
    Send(0, 1, kLargeBytes);
    Recv(1, 0, kLargeBytes);
    for (std::uint32_t tag = 1; tag < 5; ++tag) Send(1, 0, 3000 * tag, tag);
    cluster_->RunEvents(events);
    cluster_->CutControl(0, 1);
    cluster_->CutLane(0, 1);
    for (std::uint32_t tag = 1; tag < 5; ++tag) Recv(0, 1, 3000 * tag, tag);
    ASSERT_TRUE(Finish({0, 1})) << "after " << events << " events: " << cluster_->failure();
    CheckAgreement(*cluster_, {0, 1});
    EXPECT_EQ(Count(Code::kOk), 5U);
  }
}

// A newcomer's UpdateView in between: the pair goes on in the new view, and the newcomer sends, too.
TEST_F(PointToPointTest, AnUpdateViewDisturbsNoMessage) {
  for (std::uint64_t events = 0; events < 200; events += 9 * kSweep) {
    Form(2);
    const std::uint32_t newcomer = cluster_->AddNode(1);
    Pass(1000);
    SubmitAll(*cluster_, {0, 1}, kUpdate);
    Send(0, 1, kLargeBytes);
    cluster_->RunEvents(events);
    Recv(1, 0, kLargeBytes);
    ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Joined(newcomer) && cluster_->AllDone({0, 1}); }));
    Send(newcomer, 0, 20'000);
    Recv(0, newcomer, 20'000);
    ASSERT_TRUE(Finish({0, 1, newcomer})) << cluster_->failure();
    EXPECT_EQ(Count(Code::kOk), 2U);
    CheckAgreement(*cluster_, {0, 1, newcomer});
  }
}

TEST_F(PointToPointTest, WhoLeavesFinishesWhatItsPartnerHasAskedFor) {
  Form(2);
  Recv(1, 0, kLargeBytes);
  Pass(50);
  Send(0, 1, kLargeBytes);
  cluster_->Leave(0);
  ASSERT_TRUE(Finish({0, 1}));
  EXPECT_EQ(Count(Code::kOk), 1U);
}

// A third one leaves meanwhile: in the new view nobody has said again that it is ready.
TEST_F(PointToPointTest, WhoLeavesFinishesItOverAViewToo) {
  constexpr std::uint64_t kLongBytes = 16 * kLargeBytes;
  for (std::uint64_t events = 0; events < 200; events += 9 * kSweep) {
    Form(3);
    Recv(1, 0, kLongBytes);
    Pass(50);
    Send(0, 1, kLongBytes);
    cluster_->Leave(2);
    cluster_->RunEvents(events);
    cluster_->Leave(0);
    ASSERT_TRUE(Finish({0, 1})) << "after " << events << " events: " << cluster_->failure();
    EXPECT_EQ(Count(Code::kOk), 1U) << "after " << events << " events";
  }
}

TEST_F(PointToPointTest, WhoLeavesAfterItHasReceivedTellsItsSender) {
  Form(3);
  Recv(1, 0, 10);
  Send(0, 1, 10);
  ASSERT_TRUE(Finish({1}));
  ASSERT_EQ(cluster_->OpenMessages(0), 1U) << "it knows already";
  cluster_->CutControl(0, 1);
  cluster_->Leave(1);
  ASSERT_TRUE(Finish({0}));
  EXPECT_EQ(Count(Code::kOk), 1U) << "its sender got something else";
}

TEST_F(PointToPointTest, WhoLeavesDoesNotWaitForWhatNobodySends) {
  Form(2);
  Recv(0, 1, 10);
  Send(0, 1, kLargeBytes, 3);
  Recv(1, 0, 10, 7);
  cluster_->Leave(0);
  const TimePoint begun = cluster_->now();
  ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Ended(0); }));
  EXPECT_LT(cluster_->now() - begun, std::chrono::seconds(5));
  ASSERT_TRUE(Finish({1}));
}

TEST_F(PointToPointTest, ToOneThatIsGoneItFailsAtOnce) {
  Form(3);
  const PeerId gone = cluster_->IdOf(2);
  cluster_->Kill(2);
  SubmitAll(*cluster_, {0, 1}, SumF32(kSmall));
  ASSERT_TRUE(sim::Finish(*cluster_, {0, 1}));
  EXPECT_NE(cluster_->SubmitMessage(0, Sends(gone, 10)), 0U);
  EXPECT_EQ(cluster_->OpenMessages(0), 0U);
}

}  // namespace
}  // namespace ringway::sim
