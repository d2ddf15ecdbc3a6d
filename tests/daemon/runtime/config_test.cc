#include "daemon/runtime/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace ringway::daemon {
namespace {

std::string NameOfDaemon(const std::string& listen) {
  std::vector<std::string> words = {"ringwayd", "--master", "127.0.0.1:7400", "--socket", "/x", "--listen", listen};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseConfigOrExit(static_cast<int>(argv.size()), argv.data()).name;
}

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

}  // namespace
}  // namespace ringway::daemon
