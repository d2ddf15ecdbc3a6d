#include "master/shell/query_desk.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/byte_size.h"
#include "proto/frame_codec.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

using nlohmann::json;

class QueryDeskTest : public CoordinatorTest {
 protected:
  void AskStatus(std::uint64_t client) {
    control::ToMaster message;
    message.mutable_status();
    desk_.Ask(client, message);
  }
  void AskPlan(std::uint64_t client, const std::string& group, std::uint64_t bytes) {
    control::ToMaster message;
    message.mutable_plan()->set_group(group);
    message.mutable_plan()->set_bytes(bytes);
    desk_.Ask(client, message);
  }

  // Slices until an answer, which is parsed into `reply_`; who gets it.
  std::vector<std::uint64_t> Answer() {
    for (slices_ = 1;; ++slices_) {
      const auto answer = desk_.Step(*coordinator_, {.uptime = {}, .journal = "ok"});
      if (!answer) continue;
      FrameReader reader;
      EXPECT_TRUE(reader.Feed(std::as_bytes(std::span(*answer->frame))).ok());
      const auto frame = reader.Next();
      EXPECT_TRUE(frame && ParseFrame(*frame, reply_).ok());
      return answer->to;
    }
  }

  QueryDesk desk_;
  control::FromMaster reply_;
  int slices_ = 0;
};

TEST_F(QueryDeskTest, CrowdThatAsksTheSameSharesOneReport) {
  Form(3);
  for (std::uint64_t client = 1; client <= 50; ++client) {
    AskStatus(client);
    AskPlan(100 + client, "g", 4096);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Answer().size(), 50u);
    const json reply = json::parse(reply_.has_plan() ? reply_.plan().json() : reply_.status().json());
    EXPECT_EQ(reply_.has_plan() ? reply["world_size"] : reply["groups"][0]["world_size"], 3);
  }
  EXPECT_TRUE(desk_.idle());
  EXPECT_EQ(desk_.status_reports(), 1u);
  EXPECT_EQ(desk_.plan_reports(), 1u);
}

TEST_F(QueryDeskTest, OtherSizesAndGroupsAreOtherReports) {
  Form(2);
  peers_[7] = Join(7, 1, "other");
  AskPlan(1, "g", 4096);
  AskPlan(2, "g", 8192);
  AskPlan(3, "other", 4096);
  AskPlan(4, "none", 4096);
  for (std::uint64_t client = 1; client <= 4; ++client) EXPECT_EQ(Answer(), std::vector<std::uint64_t>{client});
  EXPECT_EQ(static_cast<Code>(reply_.plan().code()), Code::kInvalidArgument) << "there is no such group";
  EXPECT_EQ(desk_.plan_reports(), 3u);
}

TEST_F(QueryDeskTest, ReportIsMadeAnewOnlyWhenWhatItIsMadeFromHasChanged) {
  Form(2);
  const auto ask = [&] {
    AskPlan(1, "g", 4096);
    (void)Answer();
    return json::parse(reply_.plan().json());
  };
  const json first = ask();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(), first);
  EXPECT_EQ(desk_.plan_reports(), 1u);
  control::ToMaster measured;
  measured.mutable_measured()->set_peer(peers_[1]);
  measured.mutable_measured()->set_other(peers_[2]);
  measured.mutable_measured()->set_bytes_per_second(10'000'000);
  Say(1, measured);
  EXPECT_NE(ask(), first) << "a path is known now";
  control::ToMaster times;
  control::PeerCounters& counters = *times.mutable_heartbeat()->add_counters();
  counters.set_peer(peers_[1]);
  counters.set_times_epoch(ViewOf(1).epoch());
  control::OpTime& time = *counters.add_times();
  time.set_size_class(SizeClassOf(4096));
  time.set_operations(5);
  time.set_median_us(1500);
  Say(1, times);
  EXPECT_EQ(ask()["algorithms"][0]["measured_ms"], 1.5);
  EXPECT_EQ(desk_.plan_reports(), 3u);
  const std::uint64_t epoch = ViewOf(1).epoch();
  Say(1, Report(1, epoch));
  Say(2, Report(2, epoch));
  EXPECT_NE(ask()["epoch"], first["epoch"]) << "another view";
}

TEST_F(QueryDeskTest, WhoIsGoneIsNotAnswered) {
  Form(2);
  AskStatus(1);
  AskPlan(2, "g", 4096);
  AskPlan(3, "g", 4096);
  AskPlan(4, "g", 8192);
  for (const std::uint64_t gone : {1, 2, 4}) desk_.Forget(gone);
  EXPECT_EQ(Answer(), std::vector<std::uint64_t>{3});
  EXPECT_TRUE(desk_.idle());
}

TEST_F(QueryDeskTest, StatusWaitsForOnePlanAtMost) {
  Form(2);
  for (std::uint64_t i = 1; i <= 50; ++i) AskPlan(i, "g", 1000 + i);
  EXPECT_EQ(Answer(), std::vector<std::uint64_t>{1});
  AskStatus(99);
  int plans = 0;
  while (Answer() != std::vector<std::uint64_t>{99}) ++plans;
  EXPECT_LE(plans, 2);
}

TEST_F(QueryDeskTest, LongStatusComesInSlicesAndWhoAsksMeanwhileGetsANewerOne) {
  constexpr std::uint64_t kGroups = 40;
  for (std::uint64_t i = 1; i <= kGroups; ++i) peers_[i] = Join(i, 1, "g" + std::to_string(i));
  AskStatus(1);
  EXPECT_FALSE(desk_.Step(*coordinator_, {}));
  AskStatus(2);
  AskStatus(3);
  peers_[50] = Join(50, 1, "a late one");  // where the first has already been
  EXPECT_EQ(Answer(), std::vector<std::uint64_t>{1});
  EXPECT_GE(slices_, static_cast<int>(kGroups));
  EXPECT_EQ(json::parse(reply_.status().json())["groups"].size(), kGroups);
  EXPECT_EQ(Answer(), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(json::parse(reply_.status().json())["groups"].size(), kGroups + 1);
  EXPECT_EQ(json::parse(reply_.status().json())["daemons"].size(), kGroups + 1);
}

}  // namespace
}  // namespace ringway
