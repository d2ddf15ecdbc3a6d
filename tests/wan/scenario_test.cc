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
                                                       {"[[site]]\nname = \"c\"\nhosts = 63", "2 to 64 hosts"},
                                                       {"[[site]", "line 7"}};
  for (const auto& [line, why] : wrong) {
    const bool first = line[0] != '[';
    const auto parsed = ParseScenario(first ? std::string(line) + "\n" + kTwo : kTwo + std::string(line), "test");
    EXPECT_NE(parsed.error.find(why), std::string::npos) << line << ": " << parsed.error;
  }
  EXPECT_NE(ParseScenario("", "test").error, "");
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
