#include "proto/shell/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace ringway::shell {
namespace {

using nlohmann::json;
using testing::ExitedWithCode;

// Set-up happens once a process, so each case is a process of its own whose stderr is looked at.
using Lines = std::vector<std::string>;
class LinesMatch {
 public:
  using is_gtest_matcher = void;
  using Check = std::function<std::string(const Lines&)>;  // what is wrong, or nothing
  explicit LinesMatch(Check check) : check_(std::move(check)) {}
  bool MatchAndExplain(const std::string& text, std::ostream* why) const {
    Lines lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    const std::string wrong = check_(lines);
    if (why != nullptr) *why << wrong;
    return wrong.empty();
  }
  void DescribeTo(std::ostream* out) const { *out << "has the expected lines"; }
  void DescribeNegationTo(std::ostream* out) const { *out << "has other lines"; }

 private:
  Check check_;
};

const std::string kHostile = "a \"b\"\\ c=d\nsecond line\t\x01 {}%v \xff\xfe end";

LogOptions OptionsOf(const std::string& format, const std::string& level, const std::string& file = "") {
  return {.format = format, .level = level, .file = file, .file_bytes = 64 << 10};
}

const std::string kName = "a \"name\" = \\ lost=5\n";

[[noreturn]] void LogThings(const std::string& format, const std::string& level) {
  if (!SetUpLog(OptionsOf(format, level)).ok()) std::exit(1);
  Log(Level::kDebug, "quiet");
  Log(Level::kInfo, "listening", {{"address", "127.0.0.1:80"}, {"group", "my job"}, {"empty", ""}});
  Log(Level::kWarning, "hostile", {{"text", kHostile}});
  Log(Level::kError, "numbers",
      LogFields{{"group", "a b=c"}, {"port", 80}} + LogFields{{"peer", "1"}, {"name", kName}});
  std::exit(0);
}

[[noreturn]] void ParseHostileText() {
  if (!SetUpLog(OptionsOf("text", "debug")).ok()) std::exit(1);
  control::Refusal refusal;
  const bool parsed = refusal.ParseFromString("\x12\x02\xff\xfe");  // its text is no UTF-8
  std::exit(parsed ? 1 : 0);
}

std::string CheckJson(const Lines& lines) {
  if (lines.size() != 3) return "lines: " + std::to_string(lines.size());
  std::vector<json> events;
  for (const std::string& line : lines) {
    events.push_back(json::parse(line, nullptr, false));
    if (events.back().is_discarded()) return "not JSON: " + line;
    const std::string time = events.back().value("time", "");
    if (time.size() != 24 || time[10] != 'T' || time[19] != '.' || time.back() != 'Z') return "time: " + time;
  }
  const json& first = events[0];
  if (first["event"] != "listening" || first["level"] != "info") return "first: " + first.dump();
  if (first["address"] != "127.0.0.1:80" || first["group"] != "my job" || !first["empty"].get<std::string>().empty())
    return first.dump();
  const std::string text = events[1].value("text", "");
  if (text.find("a \"b\"\\ c=d\nsecond line\t\x01 {}%v ") != 0 || !text.ends_with(" end")) return "hostile: " + text;
  if (events[1]["level"] != "warning") return "level: " + events[1].dump();
  json last = events[2];
  last.erase("time");
  const json expected = {{"level", "error"}, {"event", "numbers"}, {"group", "a b=c"},
                         {"port", 80},       {"peer", "1"},        {"name", kName}};
  if (last != expected) return last.dump();
  return {};
}

TEST(LogDeathTest, JsonLinesParseWhateverTheValues) {
  EXPECT_EXIT(LogThings("json", "info"), ExitedWithCode(0), LinesMatch(CheckJson));
}

std::string CheckText(const Lines& lines) {
  if (lines.size() != 3) return "lines: " + std::to_string(lines.size());
  if (!lines[0].ends_with(R"( info listening address=127.0.0.1:80 group="my job" empty="")")) return lines[0];
  if (lines[1].find(R"( warning hostile text="a \"b\"\\ c=d\nsecond line\t)") == std::string::npos) return lines[1];
  if (!lines[2].ends_with(R"( error numbers group="a b=c" port=80 peer=1 name="a \"name\" = \\ lost=5\n")"))
    return lines[2];
  return {};
}

TEST(LogDeathTest, TextKeepsEachEventOnOneLine) {
  EXPECT_EXIT(LogThings("text", "info"), ExitedWithCode(0), LinesMatch(CheckText));
}

TEST(LogDeathTest, LevelHidesWhatIsBelow) {
  const auto count = [](std::size_t expected) {
    return LinesMatch([expected](const Lines& lines) {
      return lines.size() == expected ? std::string() : "lines: " + std::to_string(lines.size());
    });
  };
  EXPECT_EXIT(LogThings("text", "debug"), ExitedWithCode(0), count(4));
  EXPECT_EXIT(LogThings("text", "warning"), ExitedWithCode(0), count(2));
  EXPECT_EXIT(LogThings("json", "error"), ExitedWithCode(0), count(1));
}

TEST(LogDeathTest, HostileMessageWritesNoLine) {
  const auto nothing = [](const Lines& lines) { return lines.empty() ? std::string() : lines.front(); };
  EXPECT_EXIT(ParseHostileText(), ExitedWithCode(0), LinesMatch(nothing));
}

[[noreturn]] void FillFile(const std::string& file, int lines) {
  if (!SetUpLog(OptionsOf("text", "info", file)).ok()) std::exit(1);
  for (int i = 0; i < lines; ++i) Log(Level::kInfo, "line", {{"number", i}});
  std::exit(0);
}

class LogFileDeathTest : public testing::Test {
 protected:
  LogFileDeathTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ringway_log_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
  }
  ~LogFileDeathTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

TEST_F(LogFileDeathTest, IsBoundedAndKeepsTheNewestLines) {
  constexpr int kLines = 20'000;  // several times what is kept
  EXPECT_EXIT(FillFile(directory_ / "x.log", kLines), ExitedWithCode(0), "^$");
  std::vector<int> numbers;
  for (const char* name : {"x.3.log", "x.2.log", "x.1.log", "x.log"}) {
    std::ifstream file(directory_ / name);
    const std::size_t before = numbers.size();
    for (std::string line; std::getline(file, line);) numbers.push_back(std::stoi(line.substr(line.rfind('=') + 1)));
    EXPECT_GT(numbers.size(), before) << name;
    EXPECT_LE(std::filesystem::file_size(directory_ / name), 64U << 10) << name;
  }
  ASSERT_FALSE(numbers.empty());
  for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], kLines - static_cast<int>(numbers.size() - i));
  using std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(directory_iterator(directory_), directory_iterator()), 4);
}

TEST_F(LogFileDeathTest, GoesOnAfterARestart) {
  EXPECT_EXIT(FillFile(directory_ / "x.log", 1), ExitedWithCode(0), "^$");
  EXPECT_EXIT(FillFile(directory_ / "x.log", 1), ExitedWithCode(0), "^$");
  std::ifstream file(directory_ / "x.log");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(file), {}, '\n'), 2);
}

TEST(LogTest, FileThatCannotBeWrittenIsNamed) {
  const Status status = SetUpLog(OptionsOf("text", "info", "/proc/none/x.log"));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("/proc/none"), std::string::npos) << status.text();
}

TEST(LogTest, UnknownFormatAndLevelAreNamed) {
  const Status format = SetUpLog(OptionsOf("xml", "info"));
  EXPECT_EQ(format.code(), Code::kInvalidArgument);
  EXPECT_NE(format.text().find("'xml'"), std::string::npos);
  const Status level = SetUpLog(OptionsOf("json", "loud"));
  EXPECT_EQ(level.code(), Code::kInvalidArgument);
  EXPECT_NE(level.text().find("'loud'"), std::string::npos);
}

}  // namespace
}  // namespace ringway::shell
