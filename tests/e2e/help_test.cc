// What --help and README's table say of the options.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

using Argv = std::vector<std::string>;

struct Program {
  std::string name;
  std::vector<Argv> pages;
};

const std::vector<Program>& AllPrograms() {
  static const std::vector<Program> programs = {
      {"ringway-master", {{RINGWAY_MASTER, "--help"}}},
      {"ringwayd", {{RINGWAY_DAEMON, "--help"}}},
      {"ringwayctl", {{RINGWAY_CTL, "--help"}, {RINGWAY_CTL, "plan", "--help"}, {RINGWAY_CTL, "evict", "--help"}}},
      {"ringway-bench", {{RINGWAY_BENCH, "--help"}}},
      {"train_text", {{RINGWAY_TRAIN_TEXT, "--help"}}}};
  return programs;
}

// One option of a page: what stands behind its name, up to the next.
struct Option {
  std::string name;
  std::string text;
  // A word for the value follows the name.
  bool takes_value() const { return std::regex_search(text, std::regex("^ [A-Z]+\\b|^ [a-z]+\\|")); }
};

std::vector<Option> OptionsOf(const Program& program) {
  std::vector<Option> options;
  for (const Argv& page : program.pages) {
    const Finished run = RunToEnd(page);
    EXPECT_EQ(run.code, 0) << run.err;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      std::smatch head;
      if (std::regex_search(line, head, std::regex("^  (?:-h,)?(--[a-z-]+)"))) {
        options.push_back({head[1], head.suffix()});
      } else if (line.starts_with("    ") && !options.empty()) {
        options.back().text += line;
      }
    }
  }
  return options;
}

std::set<std::string> OptionsInReadme(const std::string& program) {
  std::ifstream readme(RINGWAY_SOURCE_DIR "/README.md");
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("| `" + program + "` |")) continue;
    const std::regex option("--[a-z-]+");
    return {std::sregex_token_iterator(line.begin(), line.end(), option), std::sregex_token_iterator()};
  }
  ADD_FAILURE() << "README has no row of " << program;
  return {};
}

TEST(Help, OptionThatTakesAValueShowsItsDefaultUnlessItIsRequired) {
  for (const Program& program : AllPrograms()) {
    const std::vector<Option> options = OptionsOf(program);
    EXPECT_GT(std::count_if(options.begin(), options.end(), [](const Option& option) { return option.takes_value(); }),
              2)
        << program.name;
    for (const Option& option : options) {
      if (!option.takes_value()) continue;
      EXPECT_TRUE(
          std::regex_search(option.text, std::regex("^ [^ ]+(?: in \\[[^\\]]*\\])?=|default|REQUIRED|required")))
          << program.name << ' ' << option.name << option.text;
    }
  }
}

TEST(Help, ReadmesTableHasTheSameOptions) {
  for (const Program& program : AllPrograms()) {
    std::set<std::string> in_help;
    for (const Option& option : OptionsOf(program)) in_help.insert(option.name);
    for (const char* everywhere : {"--help", "--version"}) {
      EXPECT_TRUE(in_help.contains(everywhere)) << program.name << ' ' << everywhere;
      in_help.erase(everywhere);
    }
    EXPECT_EQ(OptionsInReadme(program.name), in_help) << program.name;
  }
}

}  // namespace
}  // namespace ringway::e2e
