// --help and the READMEs' tables say the same of the options.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
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
  std::string readme;
  std::vector<Argv> pages;
};

const std::vector<Program>& AllPrograms() {
  static const std::vector<Program> programs = {{"ringway-master", "master", {{RINGWAY_MASTER, "--help"}}},
                                                {"ringwayd", "daemon", {{RINGWAY_DAEMON, "--help"}}},
                                                {"ringwayctl",
                                                 "client",
                                                 {{RINGWAY_CTL, "--help"},
                                                  {RINGWAY_CTL, "doctor", "--help"},
                                                  {RINGWAY_CTL, "plan", "--help"},
                                                  {RINGWAY_CTL, "events", "--help"},
                                                  {RINGWAY_CTL, "trace", "--help"},
                                                  {RINGWAY_CTL, "top", "--help"},
                                                  {RINGWAY_CTL, "evict", "--help"},
                                                  {RINGWAY_CTL, "drain", "--help"},
                                                  {RINGWAY_CTL, "certs", "issue", "--help"}}},
                                                {"ringway-bench", "client", {{RINGWAY_BENCH, "--help"}}},
                                                {"train_text", "client", {{RINGWAY_TRAIN_TEXT, "--help"}}}};
  return programs;
}

// One option of a page: what stands behind its name, up to the next.
struct Option {
  std::string name;
  std::string text;
  // A word for the value follows the name.
  bool takes_value() const { return std::regex_search(text, std::regex("^ [A-Z]+\\b|^ [a-z]+\\|")); }
  // "required", or its default; empty if it has none that is set apart from the rest of the text.
  std::string shown_default() const {
    if (std::regex_search(text, std::regex("\\bREQUIRED\\b|\\(required\\)"))) return "required";
    std::smatch found;
    if (std::regex_search(text, found, std::regex("^ [^ =]+(?: in \\[[^\\]]*\\])?=([^ ]+(?: ms)?)"))) return found[1];
    if (std::regex_search(text, found, std::regex("\\(default:? ([^)]*)\\)"))) return found[1];
    return "";
  }
};

std::vector<Option> OptionsOf(const Program& program) {
  std::vector<Option> options;
  for (const Argv& page : program.pages) {
    const Finished run = RunToEnd(page);
    EXPECT_EQ(run.code, 0) << run.err;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      std::smatch head;
      if (std::regex_search(line, head, std::regex("^  (?:-[a-z],)?(--[a-z-]+)"))) {
        options.push_back({head[1], head.suffix()});
      } else if (line.starts_with("    ") && !options.empty()) {
        options.back().text += line;
      }
    }
  }
  return options;
}

// The rows below the heading "Options of `PROGRAM`": | `--option VALUE` | default | what |.
std::map<std::string, std::string> DefaultsInReadme(const Program& program) {
  std::ifstream readme(RINGWAY_SOURCE_DIR "/" + program.readme + "/README.md");
  std::map<std::string, std::string> defaults;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("## ")) inside = line == "## Options of `" + program.name + "`";
    std::smatch row;
    if (!inside || !std::regex_match(line, row, std::regex("\\| `(--[a-z-]+)[^`]*` \\|(?: (.*?))? \\| .+ \\|")))
      continue;
    EXPECT_TRUE(defaults.emplace(row[1], row[2]).second) << program.name << ' ' << row[1];
  }
  return defaults;
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

// Every option, commented or not, and nothing else.
TEST(Help, ExampleFilesHaveEveryOption) {
  const std::map<std::string, std::string> files = {{"ringway-master", "master.toml"}, {"ringwayd", "ringwayd.toml"}};
  for (const Program& program : AllPrograms()) {
    const auto file = files.find(program.name);
    if (file == files.end()) continue;
    std::ifstream example(RINGWAY_SOURCE_DIR "/deploy/examples/" + file->second);
    std::set<std::string> there;
    for (std::string line; std::getline(example, line);) {
      std::smatch key;
      if (std::regex_search(line, key, std::regex("^(?:# )?([a-z-]+) = "))) there.insert("--" + key[1].str());
    }
    std::set<std::string> wanted;
    for (const Option& option : OptionsOf(program)) wanted.insert(option.name);
    for (const char* command_line : {"--help", "--version", "--config", "--check-config", "--new-journal"}) {
      wanted.erase(command_line);
    }
    EXPECT_EQ(there, wanted) << file->second;
  }
}

TEST(Help, ReadmesTableHasTheSameOptionsAndDefaults) {
  for (const Program& program : AllPrograms()) {
    const std::map<std::string, std::string> in_readme = DefaultsInReadme(program);
    std::map<std::string, std::string> in_help;
    for (const Option& option : OptionsOf(program)) {
      in_help[option.name] = option.shown_default();
      const auto row = in_readme.find(option.name);
      if (option.shown_default().empty() && row != in_readme.end()) in_help[option.name] = row->second;
    }
    for (const char* everywhere : {"--help", "--version"}) {
      EXPECT_TRUE(in_help.contains(everywhere)) << program.name << ' ' << everywhere;
      in_help.erase(everywhere);
    }
    EXPECT_EQ(in_readme, in_help) << program.name;
  }
}

}  // namespace
}  // namespace ringway::e2e
