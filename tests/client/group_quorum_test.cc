// What a group is joined with, and which operations take it: quorum, grace and late inputs.
#include <gtest/gtest.h>
#include <ringway/ringway.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/joining.h"

namespace ringway {
namespace {

using testing::FakeDaemon;
using testing::MustJoin;
using testing::OptionsFor;

JoinOptions GoesOn(const FakeDaemon& daemon) {
  JoinOptions options = OptionsFor(daemon);
  options.quorum = Quorum::Percent(50);
  options.late = Late::kNext;
  options.grace = Milliseconds(70);
  return options;
}

class GroupQuorumTest : public ::testing::Test {
 protected:
  // Returns what the daemon is asked for.
  abi::OpSpec SpecOf(Session& session, ReduceOp op, const OpOptions& options) {
    float value = 1;
    const auto result = session.AllReduce(&value, &value, 1, DType::kF32, op, options);
    EXPECT_TRUE(result.ok()) << result.status().text();
    return daemon_.Look().submits.back().spec;
  }

  FakeDaemon daemon_;
};

TEST_F(GroupQuorumTest, SumsAndAveragesThatNameNoQuorumTakeTheGroups) {
  const auto session = MustJoin(GoesOn(daemon_));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    const abi::OpSpec plain = SpecOf(*session, op, {});
    EXPECT_EQ(plain.quorum, Quorum::Percent(50).code);
    EXPECT_EQ(plain.grace_ms, 70U);
    EXPECT_EQ(plain.late, Late::kDropped) << "there is no name to keep it by";
    EXPECT_EQ(SpecOf(*session, op, {.error_feedback = "x"}).late, Late::kNext);
  }
  EXPECT_EQ(SpecOf(*session, ReduceOp::kSum, {.grace = Milliseconds(5)}).grace_ms, 5U);
}

TEST_F(GroupQuorumTest, AQuorumOfTheOperationStandsAlone) {
  const auto session = MustJoin(GoesOn(daemon_));
  for (const Quorum& quorum : {Quorum::All(), Quorum::Ranks(1)}) {
    const abi::OpSpec spec = SpecOf(*session, ReduceOp::kSum, {.quorum = quorum});
    EXPECT_EQ(spec.quorum, quorum.code);
    EXPECT_EQ(spec.grace_ms, 0U);
    EXPECT_EQ(spec.late, Late::kDropped);
  }
}

TEST_F(GroupQuorumTest, OtherOperationsWaitForAll) {
  const auto session = MustJoin(GoesOn(daemon_));
  EXPECT_EQ(SpecOf(*session, ReduceOp::kMax, {}).quorum, 0);
  float value = 1, all = 0;
  ASSERT_TRUE(session->ReduceScatter(&value, &value, 1, DType::kF32, ReduceOp::kSum).ok());
  ASSERT_TRUE(session->AllGather(&value, 1, &all, 1, DType::kF32).ok());
  ASSERT_TRUE(session->Barrier().ok());
  ASSERT_TRUE(session->UpdateView().ok());
  const std::vector<abi::Submit> submits = daemon_.Look().submits;
  EXPECT_TRUE(std::all_of(submits.begin(), submits.end(), [](const abi::Submit& submit) {
    return submit.spec.quorum == 0 && submit.spec.grace_ms == 0 && submit.spec.late == Late::kDropped;
  }));
}

TEST_F(GroupQuorumTest, WithoutOneOfTheGroupOperationsWaitForAll) {
  const auto session = MustJoin(OptionsFor(daemon_));
  EXPECT_EQ(SpecOf(*session, ReduceOp::kSum, {}).quorum, 0);
  float value = 1;
  const OpOptions only_grace{.grace = Milliseconds(1)};
  EXPECT_EQ(session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, only_grace).status().code(),
            Code::kInvalidArgument);
}

TEST_F(GroupQuorumTest, WhatAGroupCannotHaveIsRefused) {
  const auto refused = [this](const auto& change) {
    JoinOptions options = OptionsFor(daemon_);
    change(options);
    return Session::Join(options).status().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](JoinOptions& o) { o.quorum = Quorum::OfGroup(); }));
  EXPECT_TRUE(refused([](JoinOptions& o) { o.quorum = Quorum::Ranks(65); }));
  EXPECT_TRUE(refused([](JoinOptions& o) { o.grace = Milliseconds(1); }));
  EXPECT_TRUE(refused([](JoinOptions& o) { o.late = Late::kNext; }));
  EXPECT_TRUE(refused([](JoinOptions& o) { o.quorum = Quorum::Ranks(1), o.grace = Milliseconds(-1); }));
  EXPECT_TRUE(refused([](JoinOptions& o) { o.quorum = Quorum::Ranks(1), o.late = static_cast<Late>(kLateCount); }));
}

TEST_F(GroupQuorumTest, ItIsTheSameInC) {
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = daemon_.socket_path().c_str();
  config.group = "job";
  config.waitWorld = 1;
  config.quorumPercent = 50;
  config.graceMs = 70;
  config.keepLate = 1;
  ringwayComm_t comm = nullptr;
  ASSERT_EQ(ringwayCommInit(&comm, &config), ringwaySuccess) << ringwayGetLastError(nullptr);
  const auto spec_of = [&](const ringwayOpOptions_t* options) {
    float value = 1;
    EXPECT_EQ(ringwayAllReduceWith(&value, &value, 1, ringwayFloat32, ringwaySum, options, comm, nullptr),
              ringwaySuccess)
        << ringwayGetLastError(comm);
    return daemon_.Look().submits.back().spec;
  };
  const abi::OpSpec plain = spec_of(nullptr);
  EXPECT_EQ(plain.quorum, Quorum::Percent(50).code);
  EXPECT_EQ(plain.grace_ms, 70U);
  ringwayOpOptions_t options = RINGWAY_OP_OPTIONS_INITIALIZER;
  options.errorFeedback = "x";
  EXPECT_EQ(spec_of(&options).late, Late::kNext);
  options.errorFeedback = nullptr;
  options.quorum = RINGWAY_QUORUM_ALL;
  EXPECT_EQ(spec_of(&options).quorum, 0);
  options.quorum = 1;
  EXPECT_EQ(spec_of(&options).quorum, 1);
  options.quorum = 65;
  float value = 1;
  EXPECT_EQ(ringwayAllReduceWith(&value, &value, 1, ringwayFloat32, ringwaySum, &options, comm, nullptr),
            ringwayNotSupported);
  EXPECT_EQ(ringwayCommDestroy(comm), ringwaySuccess);
  config.quorum = config.quorumPercent = 0;
  EXPECT_EQ(ringwayCommInit(&comm, &config), ringwayInvalidArgument) << "a grace needs a quorum";
}

TEST_F(GroupQuorumTest, AResultSaysWhetherALateInputIsKept) {
  const auto session = MustJoin(OptionsFor(daemon_));
  float value = 1;
  for (const bool is_kept : {false, true}) {
    daemon_.SetLate(true, is_kept);
    const auto result =
        session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, {.quorum = Quorum::Ranks(1)});
    ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_TRUE(result->is_late);
    EXPECT_EQ(result->is_kept, is_kept);
  }
}

TEST_F(GroupQuorumTest, ADaemonThatDoesNotSayItKeepsALateInputDoesAsItIsAsked) {
  FakeDaemon old({.version = abi::kVersionOfKept - 1});
  const auto session = MustJoin(OptionsFor(old));
  float value = 1;
  for (const bool is_late : {true, false}) {
    old.SetLate(is_late);
    for (const Late late : {Late::kNext, Late::kDropped}) {
      OpOptions options{.quorum = Quorum::Ranks(1), .late = late};
      if (late == Late::kNext) options.error_feedback = "x";
      const auto result = session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, options);
      ASSERT_TRUE(result.ok()) << result.status().text();
      EXPECT_EQ(result->is_late, is_late);
      EXPECT_EQ(result->is_kept, is_late && late == Late::kNext);
    }
  }
}

}  // namespace
}  // namespace ringway
