#include "client/bench/companion.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "tests/client/fake_daemon.h"

namespace ringway::bench {
namespace {

using testing::FakeDaemon;

class CompanionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    JoinOptions join;
    join.socket_path = daemon_.socket_path();
    join.group = "bench";
    join.wait_world = 1;
    auto session = Session::Join(join);
    ASSERT_TRUE(session.ok()) << session.status().text();
    session_ = std::move(session.value());
    companion_ = std::make_unique<Companion>(session_.get(), 1 << 20, std::chrono::seconds(30));
    ASSERT_TRUE(companion_->Allocate().ok());
  }

  std::size_t Submitted() { return daemon_.Look().submits.size(); }

  FakeDaemon daemon_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Companion> companion_;
};

TEST_F(CompanionTest, OneIsUnderWayUntilItEndsThenTheNext) {
  daemon_.SetHolds(true);
  EXPECT_FALSE(companion_->busy());
  ASSERT_TRUE(companion_->KeepBusy().ok());
  ASSERT_TRUE(companion_->KeepBusy().ok());
  EXPECT_TRUE(companion_->busy());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 1; }));
  daemon_.CompleteHeld();
  EXPECT_FALSE(companion_->busy());
  ASSERT_TRUE(companion_->KeepBusy().ok());
  EXPECT_TRUE(companion_->busy());
  EXPECT_EQ(companion_->submitted(), 2u);
  EXPECT_EQ(daemon_.Look().submits[0].spec.channel, 1u);
  EXPECT_EQ(daemon_.Look().submits[0].spec.count, (1u << 20) / sizeof(float));
}

TEST_F(CompanionTest, WhoIsBehindTheOtherRanksSubmitsAsManyAndWaitsForAll) {
  ASSERT_TRUE(companion_->RunOnce().ok());
  EXPECT_EQ(Submitted(), 1u);
  ASSERT_TRUE(companion_->KeepBusy().ok());
  ASSERT_TRUE(companion_->Finish(4).ok());
  EXPECT_EQ(companion_->submitted(), 4u);
  EXPECT_EQ(Submitted(), 4u);
  EXPECT_FALSE(companion_->busy());
}

TEST_F(CompanionTest, AFailureIsGivenByTheNextStep) {
  daemon_.SetHolds(true);
  ASSERT_TRUE(companion_->KeepBusy().ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const auto& seen) { return seen.submits.size() == 1; }));
  daemon_.FailHeld(Code::kCancelled, "given up");
  EXPECT_EQ(companion_->KeepBusy().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ringway::bench
