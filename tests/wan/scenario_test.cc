#include "tests/wan/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace ringway::wan {
namespace {

constexpr const char* kTwo = "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\nhosts = 2\nuplink_mbit = 8\n";

TEST(WanScenario, LaterPathsWinKeyByKey) {
  const auto parsed = ParseScenario(std::string("[default]\ndelay_ms = 50\nloss = 0.5\n[inside]\ndelay_ms = 1\n") +
                                        kTwo + "[[path]]\nfrom = \"a\"\nto = \"b\"\ndelay_ms = 20\n",
                                    "test");
  ASSERT_EQ(parsed.error, "");
  const Scenario& scenario = parsed.scenario;
  ASSERT_EQ(scenario.hosts.size(), 3u);
  EXPECT_EQ(scenario.hosts[0].uplink.bytes_per_second, 0);
  EXPECT_EQ(scenario.hosts[2].uplink.bytes_per_second, 1e6);
  EXPECT_EQ(scenario.paths[0][1].delay, std::chrono::milliseconds(20));
  EXPECT_EQ(scenario.paths[0][1].loss, 0.5);
  EXPECT_EQ(scenario.paths[1][0].delay, std::chrono::milliseconds(50)) << "the other way";
  EXPECT_EQ(scenario.paths[1][2].delay, std::chrono::milliseconds(1));
  EXPECT_EQ(scenario.paths[1][2].loss, 0);
}

TEST(WanScenario, EveryMistakeIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {{"delay = 5", "no key 'delay'"},
                                                       {"[default]\ndelay_ms = -1", "delay_ms is a number from 0"},
                                                       {"[default]\nloss = 2", "loss is a number from 0 to 1"},
                                                       {"[default]\nlatency = 2", "[default] has no key"},
                                                       {"[[path]]\nbetween = [\"a\", \"x\"]", "a [[path]] is either"},
                                                       {"[[path]]\nfrom = \"a\"", "a [[path]] is either"},
                                                       {"[path]\nfrom = \"a\"", "write it as [[path]]"},
                                                       {"[[site]]\nname = \"a\"", "a name of its own"},
                                                       {"[[site]]\nname = \"*\"", "a name of its own"},
                                                       {"downlink_mbit = -1", "downlink_mbit is a number from 0"},
                                                       {"police_mbit = \"x\"", "police_mbit is a number from 0"},
                                                       {"police_burst_kb = 9", "police_burst_kb needs police_mbit"},
                                                       {"schedule = \"\"", "schedule is \"SECOND:MBIT"},
                                                       {"schedule = \"5:0\"", "schedule is \"SECOND:MBIT"},
                                                       {"schedule = \"5:9x\"", "schedule is \"SECOND:MBIT"},
                                                       {"schedule = \"5:9 5:8\"", "schedule is \"SECOND:MBIT"},
                                                       {"schedule = 5", "schedule is \"SECOND:MBIT"},
                                                       {"drops = \"bytes\"", "drops is \"packets\""},
                                                       {"drops = 1", "drops is \"packets\""},
                                                       {"drops=\"device\"\nschedule=\"5:9\"", "no schedule"},
                                                       {"congestion = \"a b\"", "congestion is the name"},
                                                       {"congestion = 1", "congestion is the name"},
                                                       {"[default]\nreorder = 1", "reorder is true or false"},
                                                       {"[default]\njitter_ms = -1", "jitter_ms is a number from 0"},
                                                       {"[[inside]]", "write it as [inside]"},
                                                       {"[[foreign]]\nfrom = \"a\"", "a [[foreign]] has from"},
                                                       {"[[foreign]]\nfrom = \"a\"\nto = \"a\"", "from one site to"},
                                                       {"[[foreign]]\nhosts = 1", "[[foreign]] has no key 'hosts'"},
                                                       {"[[site]]\nname = \"c\"\nhosts = 63", "2 to 64 hosts"},
                                                       {"[[site]", "line 7"}};
  for (const auto& [line, why] : wrong) {
    const bool first = std::string(line) == "delay = 5";  // others are of the last site, or tables of their own
    const auto parsed = ParseScenario(first ? std::string(line) + "\n" + kTwo : kTwo + std::string(line), "test");
    EXPECT_NE(parsed.error.find(why), std::string::npos) << line << ": " << parsed.error;
  }
  EXPECT_NE(ParseScenario("", "test").error, "");
}

TEST(WanScenario, HostsHaveAllThatTheirSiteSays) {
  const auto parsed = ParseScenario(std::string(kTwo) +
                                        "downlink_mbit = 16\nqueue_ms = 20\npolice_mbit = 4\npolice_burst_kb = 30\n"
                                        "schedule = \"10:0.8 30.5:8\"\ncongestion = \"cubic\"\ninbound = false\n"
                                        "drops = \"super-packets\"\n"
                                        "[[foreign]]\nfrom = \"b\"\nto = \"a\"\nconnections = 3\n",
                                    "test");
  ASSERT_EQ(parsed.error, "");
  const Host& host = parsed.scenario.hosts[2];
  EXPECT_EQ(host.downlink, (Pipe{.bytes_per_second = 2e6, .queue_seconds = 0.02}));
  EXPECT_EQ(host.uplink.queue_seconds, 0.02);
  EXPECT_EQ(host.policer.bytes_per_second, 5e5);
  EXPECT_EQ(host.policer.burst_bytes, 30'000);
  ASSERT_EQ(host.schedule.size(), 2u);
  EXPECT_EQ(host.schedule[1].at, 30.5);
  EXPECT_EQ(host.schedule[0].bytes_per_second, 1e5);
  EXPECT_EQ(host.congestion, "cubic");
  EXPECT_FALSE(host.inbound);
  EXPECT_EQ(host.drops, Drops::kSuperPackets);
  EXPECT_EQ(parsed.scenario.hosts[0].drops, Drops::kPackets);
  EXPECT_TRUE(parsed.scenario.hosts[0].inbound);
  EXPECT_EQ(parsed.scenario.hosts[0].congestion, "");
  ASSERT_EQ(parsed.scenario.foreign.size(), 1u);
  EXPECT_EQ(parsed.scenario.foreign[0].from, 1u);
  EXPECT_EQ(parsed.scenario.foreign[0].to, 0u);
  EXPECT_EQ(parsed.scenario.foreign[0].connections, 3u);
}

// The scenario with the overrides; fails if there is an error.
Scenario Overridden(const std::string& toml, const std::string& overrides) {
  const OverriddenScenario overridden = OverrideScenario(toml, "test", overrides);
  EXPECT_EQ(overridden.error, "") << overrides;
  return ParseScenario(overridden.toml, "test").scenario;
}

TEST(WanScenario, OverridesWinOverAllThatTheFileSays) {
  const std::string toml = std::string("[default]\ndelay_ms = 50\n[inside]\ndelay_ms = 1\n") + kTwo +
                           "[[path]]\nbetween = [\"a\", \"b\"]\ndelay_ms = 20\nloss = 0.5\n";
  const Scenario all = Overridden(toml, "delay_ms=7,uplink_mbit=16,queue_ms=20,congestion=cubic,schedule=1:2 3:4");
  EXPECT_EQ(all.paths[0][1].delay, std::chrono::milliseconds(7));
  EXPECT_EQ(all.paths[2][0].delay, std::chrono::milliseconds(7));
  EXPECT_EQ(all.paths[0][1].loss, 0.5) << "the rest stays";
  EXPECT_EQ(all.paths[1][2].delay, std::chrono::milliseconds(1)) << "inside a site";
  for (const Host& host : all.hosts) {
    EXPECT_EQ(host.uplink, (Pipe{.bytes_per_second = 2e6, .queue_seconds = 0.02}));
    EXPECT_EQ(host.congestion, "cubic");
    EXPECT_EQ(host.schedule.size(), 2u);
  }
  const Scenario one = Overridden(toml, "b.uplink_mbit=16,b.hosts=3");
  ASSERT_EQ(one.hosts.size(), 4u);
  EXPECT_EQ(one.hosts[0].uplink.bytes_per_second, 0);
  EXPECT_EQ(one.hosts[3].uplink.bytes_per_second, 2e6);
  const Scenario lan = Overridden("[[site]]\nname = \"a\"\nhosts = 2\n", "jitter_ms=3,reorder=true");
  EXPECT_EQ(lan.paths[0][1].jitter, std::chrono::milliseconds(3)) << "one site has no other paths";
  EXPECT_TRUE(lan.paths[1][0].reorder);
}

TEST(WanScenario, QueueAtTheDeviceHoldsItsTimeAndOneSuperPacketAtLeast) {
  const Scenario scenario = Overridden(kTwo, "uplink_mbit=200,queue_ms=20,b.drops=device");
  EXPECT_EQ(DeviceQueueBytes(scenario.hosts[0]), 0u) << "its queue is in the network";
  EXPECT_EQ(DeviceQueueBytes(scenario.hosts[1]), 500'000u);
  const Scenario shallow = Overridden(kTwo, "uplink_mbit=8,queue_ms=20,drops=device");
  EXPECT_EQ(DeviceQueueBytes(shallow.hosts[0]), kSuperPacketBytesMax);
}

TEST(WanScenario, UsRunsAtAnyRateDelayAndQueueAndDropsInEachWay) {
  std::ifstream file(std::string(RINGWAY_SCENARIOS) + "/us.toml");
  const std::string us(std::istreambuf_iterator<char>(file), {});
  for (const int mbit : {200, 800}) {
    for (const int round_trip_ms : {20, 100, 300}) {
      for (const int queue_ms : {20, 100, 500}) {
        for (const auto& [name, drops] : {std::pair("packets", Drops::kPackets),
                                          {"super-packets", Drops::kSuperPackets},
                                          {"device", Drops::kDevice}}) {
          const Scenario scenario =
              Overridden(us, "uplink_mbit=" + std::to_string(mbit) + ",delay_ms=" + std::to_string(round_trip_ms / 2) +
                                 ",queue_ms=" + std::to_string(queue_ms) + ",congestion=cubic,drops=" + name);
          ASSERT_EQ(scenario.hosts.size(), 4u);
          EXPECT_EQ(scenario.paths[0][3].delay, std::chrono::milliseconds(round_trip_ms / 2));
          EXPECT_EQ(scenario.hosts[3].uplink, (Pipe{mbit * 1e6 / 8, queue_ms / 1e3}));
          EXPECT_EQ(scenario.hosts[3].drops, drops);
        }
      }
    }
  }
}

TEST(WanScenario, EveryWrongOverrideIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {{"uplink", "'uplink' is not KEY=VALUE"},
                                                       {"=3", "is not KEY=VALUE"},
                                                       {"name=x", "'name=x' sets no key of [[site]] or [[path]]"},
                                                       {"latency=3", "sets no key"},
                                                       {"a.delay_ms=3", "sets no key of [[site]]"},
                                                       {"c.uplink_mbit=3", "there is no site 'c'"},
                                                       {"uplink_mbit=fast", "uplink_mbit is a number"},
                                                       {"drops=device", "needs uplink_mbit"},
                                                       {"loss=1.5", "loss is a number from 0 to 1"},
                                                       {"queue_ms=20,,loss=0", "'' is not KEY=VALUE"}};
  for (const auto& [overrides, why] : wrong) {
    const OverriddenScenario overridden = OverrideScenario(kTwo, "test", overrides);
    EXPECT_NE(overridden.error.find(why), std::string::npos) << overrides << ": " << overridden.error;
  }
  EXPECT_NE(OverrideScenario("[[site", "test", "queue_ms=3").error, "");
  EXPECT_NE(OverrideScenario(std::string(kTwo) + "[[inside]]\n", "test", "queue_ms=3").error, "");
}

TEST(WanScenario, ShippedOnesAreWhole) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RINGWAY_SCENARIOS)) {
    std::ifstream file(entry.path());
    const auto parsed = ParseScenario(std::string(std::istreambuf_iterator<char>(file), {}), entry.path());
    EXPECT_EQ(parsed.error, "");
    for (std::size_t a = 0; a < parsed.scenario.hosts.size(); ++a) {
      for (std::size_t b = 0; b < parsed.scenario.hosts.size(); ++b) {
        EXPECT_TRUE(a == b || parsed.scenario.paths[a][b].delay.count() > 0) << entry.path() << a << b;
      }
    }
    ++files;
  }
  EXPECT_GE(files, 7u);
}

}  // namespace
}  // namespace ringway::wan
