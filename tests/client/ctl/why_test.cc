#include "client/ctl/watch/why.h"

#include <gmock/gmock.h>

#include "tests/client/ctl/watch_status.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

class WhyTest : public testing::Test {
 protected:
  json& group() { return status_["groups"][0]; }
  json& peer(std::size_t i) { return group()["peers"][i]; }
  json& live(std::size_t i) { return peer(i)["live"]; }
  std::vector<Cause> Causes() {
    const auto causes = WhyOf(status_, "job");
    EXPECT_TRUE(causes.ok()) << causes.status().text();
    return causes.ok() ? causes.value() : std::vector<Cause>();
  }
  // The only cause, which is of this kind.
  Cause Only(const std::string& kind) {
    const std::vector<Cause> causes = Causes();
    EXPECT_EQ(causes.size(), 1U);
    if (causes.empty()) return {};
    EXPECT_EQ(causes.front().kind, kind) << causes.front().what;
    return causes.front();
  }

  json status_ = HealthyStatus();
};

TEST_F(WhyTest, HealthyGroupHasNoCause) {
  EXPECT_TRUE(Causes().empty());
  const auto text = RenderWhy(status_.dump(), "job", false);
  EXPECT_THAT(text.value(), HasSubstr("10.0 operations a second of 100 ms\nnothing is seen that holds it up\n"));
}

TEST_F(WhyTest, TrainerThatOthersWaitForIsNamedWithItsDaemonAndARemedy) {
  for (const std::size_t waiting : {0, 1}) live(waiting)["wait"] = Wait("0:7", 4200, {"c"});
  const Cause cause = Only("trainer late");
  EXPECT_THAT(cause.what,
              HasSubstr("a, b wait for operation 0:7 for 4.2 s: the trainer of c (rank 2, at daemon d-c) has "
                        "not submitted it; it is evicted when it submits nothing for 10 min"));
  EXPECT_THAT(cause.remedy, HasSubstr("ringwayctl evict --group job --peer c"));
}

TEST_F(WhyTest, WhoWaitsForSomebodyElseIsBehindWhomItWaitsFor) {
  live(0)["wait"] = Wait("0:7", 9000, {"b"});
  live(1)["wait"] = Wait("1:3", 8000, {"c"});
  const std::vector<Cause> causes = Causes();
  ASSERT_EQ(causes.size(), 2U);
  EXPECT_THAT(causes[0].what, HasSubstr("the trainer of c"));
  EXPECT_THAT(causes[1].what,
              HasSubstr("the trainer of b (rank 1, at daemon d-b) has not submitted it, for it waits for c"));
}

TEST_F(WhyTest, HostThatMakesOperationsSlowIsNamed) {
  group()["slow_host"] = {{"name", "c at daemon d-c"}, {"ratio", 3.25}};
  const Cause cause = Only("line slow");
  EXPECT_THAT(cause.what,
              HasSubstr("the line of c at daemon d-c makes large operations take 3.25 times as long as they "
                        "would without that host"));
  EXPECT_THAT(cause.remedy, HasSubstr("iperf3"));
  group()["slow_host"] = nullptr;
  EXPECT_TRUE(Causes().empty());
}

TEST_F(WhyTest, OperationThatAllHaveSubmittedPointsAtTheBusiestPath) {
  live(0)["wait"] = Wait("0:7", 3000, json::array(), "data");
  group()["paths"] = {{"ranks", {"a", "b", "c"}},
                      {"rate_mbit", {{nullptr, 100, 100}, {100, nullptr, 50}, {100, 100, nullptr}}},
                      {"sent_mbit", {{0, 60, 0}, {0, 0, 48}, {60, 0, 0}}}};
  EXPECT_THAT(
      Only("line slow").what,
      HasSubstr("all have submitted 0:7, which has taken 3.0 s so far at a and needs data; nearest to its limit "
                "is the path from b to c: it carries 48.0 of 50.0 Mbit/s"));
}

TEST_F(WhyTest, PathThatIsFarSlowerThanTheOthersAndFullIsNamedWhileOperationsEnd) {
  group()["paths"] = {{"ranks", {"a", "b", "c"}},
                      {"rate_mbit", {{nullptr, 800, 790}, {10, nullptr, 9}, {810, 800, nullptr}}},
                      {"sent_mbit", {{0, 9, 9}, {9.5, 0, 1}, {9, 9, 0}}}};
  EXPECT_THAT(Only("line slow").what,
              HasSubstr("the path from b to a carries 9.50 of its 10.0 Mbit/s, and the paths of this group have 800 in "
                        "the middle: an operation takes 100 ms"));
  group()["paths"]["sent_mbit"][1][0] = 1;
  EXPECT_TRUE(Causes().empty()) << "it is idle: what is slow is something else";
  group()["paths"]["sent_mbit"][1][0] = 250;
  group()["paths"]["rate_mbit"][1][0] = 300;
  EXPECT_TRUE(Causes().empty()) << "not far slower";
}

TEST_F(WhyTest, PathThatLosesPacketsIsNamed) {
  group()["paths"] = {{"ranks", {"a", "b", "c"}},
                      {"sent_mbit", {{0, 50, 50}, {50, 0, 0.1}, {50, 50, 0}}},
                      {"resent_part", {{nullptr, 0.001, 0.02}, {0.004, nullptr, 0.9}, {0.007, 0, nullptr}}}};
  EXPECT_THAT(Only("losses").what, HasSubstr("2.00% of what a sends to c now is sent again"));
  group()["paths"]["resent_part"][0][2] = 0.001;
  group()["paths"]["resent_part"][2][0] = 1e300;
  EXPECT_TRUE(Causes().empty());
}

TEST_F(WhyTest, TrainerThatSubmitsLateInEachOperationHasTheShortestOnes) {
  live(2)["op_ms"] = 40.0;
  EXPECT_THAT(Only("trainer late").what, HasSubstr("c (rank 2, at daemon d-c) submits about 60.0 ms after the first"));
  live(2)["op_ms"] = 90.0;
  EXPECT_TRUE(Causes().empty()) << "a tenth is noise";
}

TEST_F(WhyTest, RecoveryNamesWhomTheMasterDoesNotHear) {
  group()["collecting"] = true;
  peer(1)["online"] = false;
  EXPECT_THAT(Only("recovery").what, HasSubstr("waits for the daemon of b"));
}

TEST_F(WhyTest, NewcomerAndPreparedViewSayWhatToCall) {
  json newcomer = Member("d", 3);
  newcomer["state"] = "pending";
  newcomer["rank"] = nullptr;
  newcomer["why"] = "links stand; waiting for the members to call UpdateView";
  group()["peers"].push_back(newcomer);
  group()["prepared"] = "1.3";
  const std::vector<Cause> causes = Causes();
  ASSERT_EQ(causes.size(), 2U);
  EXPECT_EQ(causes[0].kind, "join waits");
  EXPECT_THAT(causes[0].what, HasSubstr("d is not in the group yet: links stand"));
  EXPECT_EQ(causes[1].kind, "plan");
  EXPECT_THAT(causes[1].remedy, HasSubstr("UpdateView"));
}

TEST_F(WhyTest, MemoryAndDrainAreOfDaemonsOfTheGroupOnly) {
  status_["daemons"][0]["memory_used"] = 95;
  status_["daemons"].push_back({{"name", "elsewhere"}, {"draining", true}, {"memory_used", 99}, {"memory_max", 100}});
  EXPECT_THAT(Only("memory").what, HasSubstr("daemon d-a"));
  status_["daemons"][0] = {{"name", "d-a"}, {"draining", true}};
  EXPECT_THAT(Only("drain").what, HasSubstr("d-a out of service"));
}

TEST_F(WhyTest, BrokenConnectionsAndAFullDiskAreSaid) {
  peer(0)["lanes_lost"] = 3;
  peer(0)["segments_resent"] = 12;
  EXPECT_THAT(Only("losses").what, HasSubstr("have broken 3.00 times"));
  peer(0)["lanes_lost"] = 0;
  status_["master"]["journal"] = "no space left";
  EXPECT_THAT(Only("master away").what, HasSubstr("no space left"));
}

TEST_F(WhyTest, EtcdThatCannotBeWrittenToIsNoFullDisk) {
  status_["master"]["journal"] = "etcd does not answer";
  status_["master"]["journal_path"] = "etcd://10.0.0.1:2379/ringway/";
  const Cause cause = Only("master away");
  EXPECT_THAT(cause.what, HasSubstr("cannot write to etcd"));
  EXPECT_THAT(cause.remedy, HasSubstr("look at etcd"));
}

TEST_F(WhyTest, DaemonSaysThatItsMasterIsAwayAndWhatItSees) {
  const json own = {{"name", "job"},
                    {"self", 1},
                    {"rank", 0},
                    {"world_size", 2},
                    {"epoch", "1.1"},
                    {"frozen", false},
                    {"members", {{{"peer_id", 1}, {"name", "a"}}, {{"peer_id", 2}, {"name", "b"}}}},
                    {"bytes_sent", 1'000'000},
                    {"live", {{"ops_per_s", 0}, {"op_ms", 0}, {"sent_mbit", 0}, {"wait", Wait("0:1", 5000, {"b"})}}},
                    {"pairs", json::array({{{"name", "b"}, {"retransmits", 100}}})}};
  status_ = {{"daemon", {{"name", "d"}, {"master", "m:1"}, {"master_connected", false}}}, {"groups", {own}}};
  const std::vector<Cause> causes = Causes();
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_THAT(causes[0].what, HasSubstr("no connection to the master at m:1"));
  EXPECT_THAT(causes[0].remedy, HasSubstr("start ringway-master there"));
  EXPECT_THAT(causes[1].what, HasSubstr("a waits for operation 0:1 for 5.0 s: the trainer of b has not"));
  EXPECT_THAT(causes[2].what, HasSubstr("14.5% of what this daemon has sent"));
  status_["daemon"]["master"] = "m:1,n:1";
  EXPECT_THAT(Causes()[0].remedy, HasSubstr("ringwayctl --master m:1,n:1 doctor says which"));
}

TEST_F(WhyTest, UnknownGroupAndHostileTextAreErrorsOrHarmless) {
  EXPECT_EQ(WhyOf(status_, "jobs").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(RenderWhy("[1", "job", false).status().code(), Code::kProtocol);
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(RenderWhy(R"({"groups": [{"name": "x", "peers": )" + deep + "}]}", "job", false).status().code(),
            Code::kInvalidArgument);
  for (const char* key : {"peers", "paths", "prepared", "world_size", "hung_ms", "ring", "pairs"}) {
    for (const json& odd :
         {json("\x1b[2J"), json(-1), json(1e308), json::array({nullptr, 3, json::object()}), json()}) {
      json status = HealthyStatus();
      status["groups"][0][key] = odd;
      const auto text = RenderWhy(status.dump(), "job", false);
      ASSERT_TRUE(text.ok()) << key << odd;
      EXPECT_THAT(text.value(), Not(HasSubstr("\x1b"))) << key;
    }
  }
}

TEST_F(WhyTest, JsonHasTheSameCauses) {
  live(0)["wait"] = Wait("0:7", 4200, {"c"});
  const json out = json::parse(RenderWhy(status_.dump(), "job", true).value());
  EXPECT_EQ(out["group"], "job");
  ASSERT_EQ(out["causes"].size(), 1U);
  EXPECT_EQ(out["causes"][0]["kind"], "trainer late");
}

}  // namespace
}  // namespace ringway::ctl
