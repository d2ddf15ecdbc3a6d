// The READMEs show sources as they are, and link to files and headings that exist.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace ringway::style {
namespace {

using Lines = std::vector<std::string>;

// The lines between the first that is `begin` and the next that is `end`.
Lines Between(const Lines& lines, const std::string& begin, const std::string& end) {
  Lines out;
  bool inside = false;
  for (const std::string& line : lines) {
    if (inside && line == end) return out;
    if (inside) out.push_back(line);
    if (line == begin) inside = true;
  }
  ADD_FAILURE() << "no " << begin << " .. " << end;
  return {};
}

TEST(ReadmeTest, ShowsTheShortestTrainerThatIsBuiltAndTested) {
  const SourceFile readme = ReadSource(RINGWAY_SOURCE_DIR, "README.md");
  const SourceFile source = ReadSource(RINGWAY_SOURCE_DIR, "client/examples/shortest/shortest.cc");
  EXPECT_EQ(Between(readme.lines, "```cpp", "```"), Between(source.lines, "// [readme]", "// [/readme]"));
  const SourceFile of_client = ReadSource(RINGWAY_SOURCE_DIR, "client/README.md");
  const SourceFile in_c = ReadSource(RINGWAY_SOURCE_DIR, "client/examples/shortest/shortest.c");
  EXPECT_EQ(Between(of_client.lines, "```c", "```"), Between(in_c.lines, "/* [readme] */", "/* [/readme] */"));
}

TEST(ReadmeTest, ShowsTheOptionsOfLateRanksThatAreTested) {
  const SourceFile readme = ReadSource(RINGWAY_SOURCE_DIR, "client/README.md");
  const SourceFile source = ReadSource(RINGWAY_SOURCE_DIR, "tests/e2e/late_ranks_test.cc");
  EXPECT_EQ(Between(readme.lines, "```cpp", "```"), Between(source.lines, "// [readme]", "// [/readme]"));
}

Lines CodecRows() {
  Lines rows = {"|---|---|---|---|---|"};
  for (const CodecInfo& info : kCodecs) {
    std::string dtypes;
    for (std::uint8_t d = 0; d < kDTypeCount; ++d) {
      if ((info.dtypes >> d & 1) != 0)
        dtypes += (dtypes.empty() ? "" : ", ") + std::string(NameOf(static_cast<DType>(d)));
    }
    char error[16];
    std::snprintf(error, sizeof error, "%.2g%%", info.error.relative_max * 100);
    rows.push_back(std::string("| `") + info.name + "` | " + (info.dtypes == kEveryDType ? "all" : dtypes) + " | " +
                   std::to_string(EncodedBytes(info.codec, DType::kF32, 256)) + " | " + error + " | " + info.summary +
                   " |");
  }
  return rows;
}

TEST(ReadmeTest, ListsTheCodecsOfTheTable) {
  const SourceFile readme = ReadSource(RINGWAY_SOURCE_DIR, "client/README.md");
  EXPECT_EQ(Between(readme.lines, "| codec | dtypes | bytes of 256 f32 | error at most | what travels |", ""),
            CodecRows());
}

TEST(ReadmeTest, HasARowForEachErrorCode) {
  const SourceFile readme = ReadSource(RINGWAY_SOURCE_DIR, "client/README.md");
  Lines rows;
  for (const std::string& line : Between(readme.lines, "| code | what it means | what to do |", "")) {
    std::smatch row;
    if (std::regex_match(line, row, std::regex("\\| `([a-z_]+)` \\| .+ \\| .+ \\|"))) rows.push_back(row[1]);
  }
  Lines codes;
  for (std::uint32_t i = 1; i < kCodeCount; ++i) codes.push_back(NameOf(static_cast<Code>(i)));
  std::sort(rows.begin(), rows.end());
  std::sort(codes.begin(), codes.end());
  EXPECT_EQ(rows, codes);
}

// The event is the first literal of a statement that logs a warning or an error.
TEST(ReadmeTest, HasARowForEachEventThatIsAWarningOrAnError) {
  const SourceFile page = ReadSource(RINGWAY_SOURCE_DIR, "deploy/README.md");
  const Lines rows = Between(page.lines, "| event | of | it says | do |", "");
  const std::regex event("\"([a-z]+(_[a-z]+)*)\"");
  const std::regex is_severe("::k(Warning|Error)\\b");
  std::size_t found = 0;
  for (const SourceFile& source : ReadTree(RINGWAY_SOURCE_DIR, {".cc"})) {
    if (!IsUnder(source.path, "master") && !IsUnder(source.path, "daemon") && !IsUnder(source.path, "proto")) continue;
    std::string text;
    for (const std::string& line : source.lines) text += line;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = std::min(text.find(';', begin), text.size());
      const std::string statement = text.substr(begin, end - begin);
      std::smatch name;
      if (!std::regex_search(statement, is_severe)) continue;
      if (!std::regex_search(statement, name, event)) continue;
      ++found;
      EXPECT_TRUE(
          std::any_of(rows.begin(), rows.end(),
                      [&](const std::string& row) { return row.find("`" + name[1].str() + "`") < row.find(" | ", 2); }))
          << source.path << " logs " << name[1] << ", of which deploy/README.md does not say what to do";
    }
  }
  EXPECT_GT(found, 20u);
}

TEST(ReadmeTest, TakesFiveMinutesToRead) {
  constexpr std::size_t kLinesMax = 220;
  EXPECT_LE(ReadSource(RINGWAY_SOURCE_DIR, "README.md").lines.size(), kLinesMax);
}

Lines WithoutCodeBlocks(const Lines& lines) {
  Lines text;
  bool in_code = false;
  for (const std::string& line : lines) {
    const bool is_fence = line.starts_with("```");
    if (is_fence) in_code = !in_code;
    if (!in_code && !is_fence) text.push_back(line);
  }
  return text;
}

// Returns what a link to the heading says after '#', by GitHub's rule.
std::string AnchorOf(const std::string& heading) {
  std::string anchor;
  for (const char character : heading.substr(heading.find_first_not_of('#') + 1)) {
    if (character == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '-' || character == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return anchor;
}

bool HasHeading(const std::string& path, const std::string& anchor) {
  const Lines text = WithoutCodeBlocks(ReadSource(RINGWAY_SOURCE_DIR, path).lines);
  return std::any_of(text.begin(), text.end(),
                     [&](const std::string& line) { return line.starts_with("#") && AnchorOf(line) == anchor; });
}

TEST(ReadmeTest, LinksLeadToFilesAndHeadingsThatExist) {
  namespace fs = std::filesystem;
  const std::regex link("\\]\\(([^)#]*)#?([^)]*)\\)"), inline_code("`[^`]*`");
  std::size_t count = 0;
  for (const SourceFile& page : ReadTree(RINGWAY_SOURCE_DIR, {".md"})) {
    for (const std::string& line : WithoutCodeBlocks(page.lines)) {
      const std::string text = std::regex_replace(line, inline_code, "");
      for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
        const std::string target = (*found)[1], anchor = (*found)[2];
        if (target.starts_with("http")) continue;
        ++count;
        const fs::path from = fs::path(page.path).parent_path();
        const std::string path = target.empty() ? page.path : (from / target).lexically_normal().generic_string();
        const bool exists = fs::exists(fs::path(RINGWAY_SOURCE_DIR) / path);
        EXPECT_TRUE(exists) << page.path << ": " << target;
        EXPECT_TRUE(!exists || anchor.empty() || HasHeading(path, anchor))
            << page.path << ": " << target << '#' << anchor;
      }
    }
  }
  EXPECT_GT(count, 50u) << "are there no links any more?";
}

}  // namespace
}  // namespace ringway::style
