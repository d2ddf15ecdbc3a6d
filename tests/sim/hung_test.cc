// Trainers that submit nothing any more, while their daemons live.
#include "tests/sim/hung_scenarios.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

constexpr Duration kLimit = std::chrono::seconds(20);

TEST(Hung, TheOthersGoOnWithoutIt) {
  auto cluster = Formed(3, {.hung = kLimit});
  const TimePoint start = cluster->now();
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_GE(cluster->now() - start, kLimit);
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2U);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(2); }));
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, OneThatStopsInTheMiddleOfItsInputGoesToo) {
  auto cluster = Formed(3, {.hung = kLimit, .staged_one_of = 1});
  cluster->StopStaging(2);
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2U);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(2); }));
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, AnUpdateViewGoesOnWithoutIt) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0, 2}, kUpdate);
  ASSERT_TRUE(Finish(*cluster, {0, 2}));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(1); }));
}

TEST(Hung, OneWhoseOperationsFailByTheirDeadlineGoesToo) {
  auto cluster = Formed(3, {.op_deadline = kLimit / 5, .hung = kLimit});
  std::uint64_t failed = 0;
  while (!cluster->Ended(2)) {
    SubmitAll(*cluster, {0, 1}, SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, {0, 1}));
    ASSERT_LT(++failed, 50U) << "it stays";
  }
  EXPECT_GT(failed, 1U);
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, OneThatSubmitsInTimeStays) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  const TimePoint almost = cluster->now() + kLimit * 9 / 10;
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->now() >= almost; }, kLimit));
  SubmitAll(*cluster, {2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.retries, 0U);
}

TEST(Hung, OneThatWentAheadOfMostEvictsNobody) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0}, SumF32(kLarge));
  const TimePoint long_after = cluster->now() + 4 * kLimit;
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->now() >= long_after; }, 5 * kLimit));
  SubmitAll(*cluster, {1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 3U);
  EXPECT_LE(cluster->OutcomesOf(0).begin()->second.retries, 4U) << "one attempt for each time that it blames them";
}

class HungMessages : public testing::Test {
 protected:
  void Form(std::uint32_t world, const ClusterOptions& options = {.hung = kLimit}) {
    cluster_ = Formed(world, options);
  }
  void Send(std::uint32_t from, std::uint32_t to, std::uint64_t count = kLarge) {
    cluster_->SubmitMessage(from, Sends(cluster_->IdOf(to), count));
  }
  void Recv(std::uint32_t to, std::uint32_t from, std::uint64_t count = kLarge) {
    cluster_->SubmitMessage(to, Receives(cluster_->IdOf(from), count));
  }
  bool FinishMessages(const Nodes& nodes) { return sim::FinishMessages(*cluster_, nodes); }
  bool Goes(std::uint32_t node) {
    return cluster_->RunUntil([&] { return cluster_->Ended(node); }) && cluster_->EndedCode(node) == Code::kEvicted;
  }
  void Pass(Duration time) { sim::Pass(*cluster_, time); }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(HungMessages, WhoOnlyWaitsForTheHungOneStays) { EXPECT_TRUE(StaysWhoReceives(kLimit)); }

TEST_F(HungMessages, WhoExchangesMessagesForLongDoesNotHang) { EXPECT_TRUE(StayWhoExchange(kLimit)); }

TEST_F(HungMessages, AHungSenderGoes) {
  Form(3);
  Recv(0, 1);
  const TimePoint start = cluster_->now();
  ASSERT_TRUE(FinishMessages({0}));
  EXPECT_GE(cluster_->now() - start, kLimit);
  EXPECT_TRUE(Goes(1));
}

TEST_F(HungMessages, AHungReceiverGoes) {
  Form(3);
  Send(0, 1);
  ASSERT_TRUE(FinishMessages({0}));
  EXPECT_TRUE(Goes(1));
}

TEST_F(HungMessages, ASenderThatStopsInTheMiddleOfItsInputGoes) {
  Form(3, {.hung = kLimit, .staged_one_of = 1});
  cluster_->StopStaging(1);
  Send(1, 0);
  Recv(0, 1);
  ASSERT_TRUE(FinishMessages({0}));
  EXPECT_TRUE(Goes(1));
}

TEST_F(HungMessages, OfAChainTheLastGoes) {
  Form(4);
  Recv(0, 1);
  Recv(1, 2);
  ASSERT_TRUE(Goes(2));
  ASSERT_TRUE(FinishMessages({1}));
  Send(1, 0);
  ASSERT_TRUE(FinishMessages({0, 1}));
  EXPECT_EQ(cluster_->messages().Counts().at(Code::kOk), 1U);
}

// It listens for a message while all wait for it.
TEST_F(HungMessages, WhomAllWaitForGoesThoughItWaitsForAMessage) {
  Form(4);
  Recv(2, 1);
  SubmitAll(*cluster_, {0, 1, 3}, SumF32(kSmall));
  ASSERT_TRUE(Finish(*cluster_, {0, 1, 3}));
  EXPECT_TRUE(Goes(2));
}

TEST_F(HungMessages, OfTwoThatReceiveFromEachOtherOneGoes) {
  Form(2);
  Recv(0, 1);
  Recv(1, 0);
  ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Ended(0) != cluster_->Ended(1); }));
}

TEST_F(HungMessages, OneThatSendsInTimeStays) {
  Form(3);
  Recv(0, 1);
  Pass(kLimit * 9 / 10);
  Send(1, 0);
  ASSERT_TRUE(FinishMessages({0, 1}));
  EXPECT_EQ(cluster_->messages().Counts().at(Code::kOk), 1U);
  Pass(2 * kLimit);
  EXPECT_FALSE(cluster_->Ended(1));
}

// Messages that are sent ahead and forgotten, or only listened for beside other work, hold nobody up.
TEST_F(HungMessages, ForgottenSendsAndListenersCostNobodyItsPlace) {
  Form(3);
  Send(0, 1, 100);
  Pass(3 * kLimit);
  cluster_->SubmitMessage(0, Receives(cluster_->IdOf(2), 1, 5));
  for (const TimePoint end = cluster_->now() + 3 * kLimit; cluster_->now() < end;) {
    SubmitAll(*cluster_, {0}, kUpdate, 1);
    Pass(kLimit * 3 / 4);
    SubmitAll(*cluster_, {1, 2}, kUpdate, 1);
    ASSERT_TRUE(Finish(*cluster_, Range(3)));
  }
  for (const std::uint32_t node : Range(3)) EXPECT_FALSE(cluster_->Ended(node)) << node;
}

}  // namespace
}  // namespace ringway::sim
