#include "daemon/runtime/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace ringway::daemon {
namespace {

using Words = std::vector<std::string>;

Config Parsed(const std::string& master, const std::string& listen, const Words& more = {}) {
  Words words = {"ringwayd", "--master", master, "--socket", "/x", "--listen", listen};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseConfigOrExit(static_cast<int>(argv.size()), argv.data());
}

std::string NameOfDaemon(const std::string& listen) { return Parsed("127.0.0.1:7400", listen).name; }

TEST(ConfigTest, DefaultNameIsTheHostsWithThePortSoThatItLastsOverARestart) {
  std::array<char, 65> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(NameOfDaemon("127.0.0.1:7401"), std::string(host.data()) + ":7401");
}

TEST(ConfigTest, DefaultNamesOfDaemonsOnChosenPortsDiffer) {
  std::array<char, 65> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(NameOfDaemon("127.0.0.1:0"), std::string(host.data()) + "-" + std::to_string(::getpid()));
}

TEST(ConfigDeathTest, LoopbackToListenOnIsRefusedWhereTheMasterIsElsewhere) {
  const std::string master = "10.77.0.9:7400";
  for (const std::string listen : {"127.0.0.1:7401", "[::1]:0", "localhost:7401"}) {
    EXPECT_EXIT(Parsed(master, listen, {"--insecure"}), testing::ExitedWithCode(2),
                "^ringwayd: --listen [^\n]* 10.77.0.9:7400 [^\n]* --advertise HOST:PORT [^\n]*\n$");
  }
  EXPECT_EQ(Parsed(master, "10.77.0.1:7401", {"--insecure"}).master, master);
  EXPECT_EQ(Parsed(master, "127.0.0.1:7401", {"--insecure", "--advertise", "10.77.0.1:7401"}).master, master);
  EXPECT_EQ(Parsed(master, "127.0.0.1:7401", {"--insecure", "--advertise", "none"}).advertise,
            std::optional<std::string>(""));
  EXPECT_EQ(Parsed("localhost:7400", "127.0.0.1:7401", {"--insecure"}).listen, "127.0.0.1:7401");
}

}  // namespace
}  // namespace ringway::daemon
