// Flight recorders of real daemons, read while they live and after they have died, and one trace of them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 3; ++i) cluster_.AddDaemon({"--flight-file", FlightFile(i)});
  }
  std::string FlightFile(std::size_t index) const { return cluster_.directory() / ("flight" + std::to_string(index)); }
  std::string out() const { return cluster_.directory() / "trace.json"; }
  Words Master() const {
    Words where = {"--master", cluster_.master_address(), "--timeout-ms", "60000"};
    const Words tls = cluster_.TlsOptionsOf("op");
    where.insert(where.end(), tls.begin(), tls.end());
    return where;
  }
  Finished Trace(const Words& where, const Words& command) const {
    Words argv = {RINGWAY_CTL};
    argv.insert(argv.end(), where.begin(), where.end());
    argv.insert(argv.end(), {"trace", "-o", out()});
    argv.insert(argv.end(), command.begin(), command.end());
    return RunToEnd(argv);
  }
  Json Written() const {
    std::ifstream file(out());
    return Json::parse(file, nullptr, false);
  }
  // The trace once it can be made.
  Json TraceOf(const Words& where, const Words& command) const {
    Finished run;
    const bool made = Eventually([&] { return (run = Trace(where, command)).code == 0; });
    EXPECT_TRUE(made) << run.err;
    return made ? Written() : Json();
  }
  void Run(const Sessions& ranks, int rounds) const {
    for (int i = 0; i < rounds; ++i) {
      Round round(ranks, {.reduction = {}, .count = 200'000});
      round.Submit();
      (void)round.Check();
    }
  }
  // The names of slices of a category that begin, by process.
  static std::map<int, std::multiset<std::string>> Begun(const Json& trace, const std::string& category) {
    std::map<int, std::multiset<std::string>> out;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == "b" && event["cat"] == category) out[event["pid"]].insert(event["name"].get<std::string>());
    }
    return out;
  }
  static std::map<std::string, int> Processes(const Json& trace) {
    std::map<std::string, int> out;
    for (const Json& event : trace["traceEvents"]) {
      if (event["name"] == "process_name") out[event["args"]["name"]] = event["pid"];
    }
    return out;
  }

  Cluster cluster_{{.daemons = 0, .detect_ms = ClusterOptions::kShortDetectMs}};
};

TEST_F(TraceTest, TheMasterGivesAllHostsOnOneClock) {
  Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Run(ranks, 5);
  // A daemon is asked for its time with the heartbeats: until then it is missing.
  Json trace;
  ASSERT_TRUE(Eventually([&] {
    trace = TraceOf(Master(), {"job", "--last", "2"});
    return trace.is_object() && trace["metadata"]["missing"].empty();
  })) << trace["metadata"];
  ASSERT_EQ(trace["metadata"]["hosts"].size(), 3U);
  ASSERT_EQ(Processes(trace).size(), 3U);
  for (const auto& [process, names] : Begun(trace, "operation"))
    EXPECT_EQ(names, (std::multiset<std::string>{"all_reduce 0:4", "all_reduce 0:5"})) << process;
  // No chunk comes before it was sent, by more than the clocks' errors.
  std::uint64_t error_us = 0;
  for (const Json& host : trace["metadata"]["hosts"]) error_us += host["clock_error_us"].get<std::uint64_t>();
  std::map<std::string, std::int64_t> sent;
  std::map<int, std::string> peers;
  for (const auto& [name, process] : Processes(trace)) peers[process] = name.substr(0, name.find(" ("));
  const auto key = [](const std::string& from, const std::string& to, const Json& args) {
    return from + ">" + to + args["op"].get<std::string>() + args["step"].dump() + "." + args["chunk"].dump();
  };
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "b" || !event["name"].get<std::string>().starts_with("to ")) continue;
    sent[key(peers[event["pid"]], event["name"].get<std::string>().substr(3), event["args"])] = event["ts"];
  }
  std::size_t arrived = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "b" || !event["name"].get<std::string>().starts_with("from ")) continue;
    const auto found = sent.find(key(event["name"].get<std::string>().substr(5), peers[event["pid"]], event["args"]));
    ASSERT_NE(found, sent.end()) << event;
    EXPECT_GE(event["ts"].get<std::int64_t>() + static_cast<std::int64_t>(error_us), found->second) << event;
    ++arrived;
  }
  EXPECT_GT(arrived, 6U);
}

TEST_F(TraceTest, ADaemonGivesItsOwnPartAndAnUnknownGroupIsAnError) {
  Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Run(ranks, 2);
  const Json trace = TraceOf({"--socket", cluster_.socket(0)}, {"job"});
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(Begun(trace, "operation").size(), 1U);
  const Finished none = Trace({"--socket", cluster_.socket(0)}, {"nowhere"});
  EXPECT_NE(none.code, 0);
  EXPECT_NE(none.err.find("no record of a group nowhere"), std::string::npos) << none.err;
  const Finished unknown = Trace(Master(), {"nowhere"});
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.err.find("no group nowhere"), std::string::npos) << unknown.err;
  EXPECT_NE(Trace({}, {"job", "--last", "1", "--file", FlightFile(0)}).code, 0) << "a file is shown whole";
}

TEST_F(TraceTest, AKilledDaemonLeavesItsRecordsAndTheOthersDumpTheAbort) {
  Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Run(ranks, 2);
  cluster_.daemon(2).Kill();
  const Json left = TraceOf({}, {"--file", FlightFile(2)});
  ASSERT_TRUE(left.is_object());
  const auto operations = Begun(left, "operation");
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations.begin()->second, (std::multiset<std::string>{"all_reduce 0:1", "all_reduce 0:2"}));
  ranks.pop_back();
  (void)RoundsUntil(ranks, [](const OpResult& result) { return result.world_size == 2; });
  // Who is lost is known to one of them at least: the other may have heard of it from that one.
  const Json both = TraceOf(Master(), {"job", "--last", "0"});
  EXPECT_TRUE(std::any_of(both["traceEvents"].begin(), both["traceEvents"].end(), [](const Json& event) {
    return event["name"].get<std::string>().starts_with("abort, lost ") && event["cat"] == "event";
  })) << both;
  for (const std::size_t survivor : {0, 1}) {
    const Json dump = TraceOf({}, {"--file", FlightFile(survivor) + ".1"});
    EXPECT_NE(dump.dump().find("\"name\":\"abort"), std::string::npos) << survivor;
  }
}

TEST_F(TraceTest, AGroupThatHasEndedIsFoundInWhatTheRecordersHold) {
  {
    Sessions ranks = cluster_.JoinWorld(3);
    ASSERT_EQ(ranks.size(), 3U);
    Run(ranks, 3);
  }
  ASSERT_TRUE(Eventually([&] { return cluster_.MasterStatus()["groups"].empty(); }));
  Json trace;
  ASSERT_TRUE(Eventually([&] {  // a daemon's clock is known after some heartbeats
    trace = TraceOf(Master(), {"job", "--last", "2"});
    return trace.is_object() && trace["metadata"]["missing"].empty();
  })) << trace["metadata"];
  EXPECT_EQ(Begun(trace, "operation").size(), 3U) << trace["metadata"];
  EXPECT_TRUE(trace["metadata"]["begin_utc"].is_string()) << trace["metadata"];
  const Finished unknown = Trace(Master(), {"nowhere"});
  EXPECT_NE(unknown.err.find("recorders of the 3 connected daemons hold nothing of it"), std::string::npos)
      << unknown.err;
}

// While operations go on, each host is asked at another moment, for the same operations.
TEST_F(TraceTest, HostsThatAreAskedOneAfterTheOtherHaveTheSameOperations) {
  Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  const auto run_on = [&] {
    for (int i = 0; i < 20; ++i) Run(ranks, 1);
  };
  run_on();
  Words argv = {RINGWAY_CTL};
  for (const Words& part : {Master(), Words{"trace", "job", "--last", "3", "-o", out()}})
    argv.insert(argv.end(), part.begin(), part.end());
  const TemporaryDirectory directory;
  bool same = false;
  for (int attempt = 0; attempt < 20 && !same; ++attempt) {
    Process trace(directory, "trace", argv);
    while (!trace.Exited()) run_on();
    const Json written = Written();
    if (!written.is_object() || written["metadata"]["hosts"].size() < 3) continue;  // a clock is not known yet
    std::map<std::string, std::size_t> hosts_of;                                    // by operation
    for (const auto& [process, names] : Begun(written, "operation")) {
      for (const std::string& name : names) ++hosts_of[name];
    }
    same = true;
    const auto everywhere =
        std::count_if(hosts_of.begin(), hosts_of.end(), [](const auto& one) { return one.second == 3; });
    // The newest of the first host may not be submitted at the others yet.
    EXPECT_GE(everywhere + 1, static_cast<std::ptrdiff_t>(hosts_of.size())) << written["metadata"];
    EXPECT_GE(everywhere, 1);
  }
  EXPECT_TRUE(same);
}

TEST_F(TraceTest, ASignalDumpsTheRecords) {
  cluster_.daemon(0).Signal(SIGUSR1);
  EXPECT_TRUE(Eventually([&] { return Trace({}, {"--file", FlightFile(0) + ".1"}).code == 0; }));
}

}  // namespace
}  // namespace ringway::e2e
