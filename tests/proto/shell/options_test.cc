#include "proto/shell/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

namespace ringway::shell {
namespace {

using testing::ExitedWithCode;

// A program with one option of each kind, which prints their values.
class ParseOrExitTest : public testing::Test {
 protected:
  ParseOrExitTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ringway_options_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
  }
  ~ParseOrExitTest() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& text) const {
    std::string path = (directory_ / "program.toml").string();
    std::ofstream(path) << text;
    return path;
  }

  // Prints "name|count|loud" on stderr and exits 0, if ParseOrExit returns.
  [[noreturn]] static void Run(std::vector<std::string> arguments) {
    std::string name = "-";
    int count = -1;
    bool loud = false;
    CLI::App app("A program.", "program");
    app.add_option("--name", name);
    app.add_option("--count", count)->check(CLI::Range(0, 100));
    app.add_flag("--loud", loud);
    app.add_option("--mode", name)->type_name(kOctal);
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ParseOrExit(app, static_cast<int>(argv.size()), argv.data());
    std::fprintf(stderr, "%s|%d|%d", name.c_str(), count, loud ? 1 : 0);
    std::exit(0);
  }

  std::filesystem::path directory_;
};
using ParseOrExitDeathTest = ParseOrExitTest;

// One line: the whole of stderr, with a hint at its end.
constexpr char kAnyLine[] = "^program: [^\n]+; see program --help\n$";

TEST_F(ParseOrExitDeathTest, FlagsAndFileGiveTheSame) {
  EXPECT_EXIT(Run({}), ExitedWithCode(0), "^-\\|-1\\|0$");
  EXPECT_EXIT(Run({"--name", "a", "--count", "3", "--loud"}), ExitedWithCode(0), "^a\\|3\\|1$");
  const std::string file = File("name = \"a b\"\ncount = 3\nloud = true\n");
  EXPECT_EXIT(Run({"--config", file}), ExitedWithCode(0), "^a b\\|3\\|1$");
}

TEST_F(ParseOrExitDeathTest, FlagsOverrideTheFile) {
  const std::string file = File("# a comment\nname = \"file\"\ncount = 3\n");
  EXPECT_EXIT(Run({"--config", file, "--name", "flag"}), ExitedWithCode(0), "^flag\\|3\\|0$");
  EXPECT_EXIT(Run({"--count", "4", "--config", file}), ExitedWithCode(0), "^file\\|4\\|0$");
}

TEST(BytesTest, ReadsSizesWithinItsBounds) {
  const CLI::Validator bytes = Bytes(4096, 64 << 20);
  std::string text = "4K";
  EXPECT_EQ(bytes(text), "");
  EXPECT_EQ(text, "4096");
  text = "64M";
  EXPECT_EQ(bytes(text), "");
  EXPECT_EQ(text, "67108864");
  for (const char* wrong : {"4095", "65M", "0"}) {
    text = wrong;
    EXPECT_EQ(bytes(text), std::string(wrong) + " is not from 4K to 64M");
  }
  for (const char* wrong : {"", "much", "-1", "4k", "1.5M", "99999999999999999999"}) {
    text = wrong;
    EXPECT_NE(bytes(text).find("is no size; write"), std::string::npos) << wrong;
  }
}

TEST_F(ParseOrExitDeathTest, HelpExitsWithZero) { EXPECT_EXIT(Run({"--help"}), ExitedWithCode(0), "^$"); }

TEST_F(ParseOrExitDeathTest, WrongFlagsAreOneLine) {
  EXPECT_EXIT(Run({"--nmae", "x"}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"--nmae", "x"}), ExitedWithCode(2), "--nmae");
  EXPECT_EXIT(Run({"--count", "101"}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"--count", "many"}), ExitedWithCode(2), "^program: [^\n]*count[^\n]*\n$");
  EXPECT_EXIT(Run({"--count"}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"stray\nwith a second line"}), ExitedWithCode(2), kAnyLine);
}

TEST(RunOrDieDeathTest, WhatIsThrownIsOneLineAndExitCode2) {
  EXPECT_EQ(RunOrDie("program", [] { return 3; }), 3);
  const auto no_descriptor = []() -> int { throw std::system_error(EMFILE, std::generic_category(), "epoll"); };
  EXPECT_EXIT(RunOrDie("program", no_descriptor), ExitedWithCode(2), "^program: epoll: [^\n]*ulimit -n[^\n]*\n$");
  EXPECT_EXIT(RunOrDie("program", []() -> int { throw std::bad_alloc(); }), ExitedWithCode(2),
              "^program: [^\n]*alloc[^\n]*\n$");
}

TEST_F(ParseOrExitDeathTest, UnknownKeyInTheFileIsNamed) {
  const std::string file = File("name = \"a\"\nnmae = \"b\"\n");
  EXPECT_EXIT(Run({"--config", file}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"--config", file}), ExitedWithCode(2), "unknown option nmae;");
}

TEST_F(ParseOrExitDeathTest, WrongTypesInTheFileAreOneLine) {
  for (const char* text : {"count = \"many\"\n", "count = 1.5\n", "count = [1, 2]\n", "name = 1979-05-27\n",
                           "[name]\nx = 1\n", "count = 101\n", "loud = \"perhaps\"\n"}) {
    SCOPED_TRACE(text);
    EXPECT_EXIT(Run({"--config", File(text)}), ExitedWithCode(2), kAnyLine);
  }
}

TEST_F(ParseOrExitDeathTest, OctalIntegersInTheFileKeepTheirDigitsForOctalOptions) {
  EXPECT_EXIT(Run({"--config", File("mode = 0o660\n")}), ExitedWithCode(0), "^660\\|-1\\|0$");
  EXPECT_EXIT(Run({"--config", File("mode = 660\n")}), ExitedWithCode(0), "^660\\|-1\\|0$");
  EXPECT_EXIT(Run({"--config", File("mode = \"0660\"\n")}), ExitedWithCode(0), "^0660\\|-1\\|0$");
  EXPECT_EXIT(Run({"--config", File("count = 0o10\n")}), ExitedWithCode(0), "^-\\|8\\|0$");
}

TEST_F(ParseOrExitDeathTest, FileThatCannotBeReadIsOneLineWithTheReason) {
  EXPECT_EXIT(Run({"--config", directory_.string()}), ExitedWithCode(2), "^program: --config: [^\n]* is a directory; ");
  EXPECT_EXIT(Run({"--config", (directory_ / "absent").string()}), ExitedWithCode(2),
              "^program: --config: there is no [^\n]*absent; ");
  EXPECT_EXIT(Run({"--config", directory_.string()}), ExitedWithCode(2), kAnyLine);
}

TEST_F(ParseOrExitDeathTest, FileThatIsNoTomlIsOneLineWithItsPlace) {
  EXPECT_EXIT(Run({"--config", File("name = \"a\"\ncount = \n")}), ExitedWithCode(2),
              "^program: [^\n]*line 2[^\n]*\n$");
  EXPECT_EXIT(Run({"--config", File("\xff\xfe garbage \n\n")}), ExitedWithCode(2), kAnyLine);
}

TEST_F(ParseOrExitDeathTest, OddCharacterIsNamedWithItsPlace) {
  for (const std::string odd : {"[[\x01]]", "# \x7f"}) {
    EXPECT_EXIT(Run({"--config", File("count = 1\n" + odd + "\n")}), ExitedWithCode(2),
                "^program: config file [^\n]*, line 2: a control character; see program --help\n$");
  }
}

TEST_F(ParseOrExitDeathTest, AnyUtf8IsRead) {
  const std::string name = "Zürich zq 東京 \U0001f310";
  for (const std::string quote : {"\"", "'"}) {
    std::string text = "# für alle \xd1\xb9\nname = ";
    text.append(quote).append(name).append(quote).append("\n");
    const std::string file = File(text);
    EXPECT_EXIT(Run({"--config", file}), ExitedWithCode(0), "^" + name + "\\|-1\\|0$");
  }
  EXPECT_EXIT(Run({"--config", File("'größe' = 1\n")}), ExitedWithCode(2), "unknown option größe;");
  EXPECT_EXIT(Run({"--config", File("name = \"z\\u0071 \\u007aq\"\n")}), ExitedWithCode(0), "^zq zq\\|-1\\|0$");
  EXPECT_EXIT(Run({"--config", File("\"z\\u0071\" = 1\n\"z\\u0071\" = 2\n")}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"--config", File("größe = 1\n")}), ExitedWithCode(2), kAnyLine);
  EXPECT_EXIT(Run({"--config", File("name = \"\xc3\"\n")}), ExitedWithCode(2), "this is no UTF-8 text;");
}

TEST_F(ParseOrExitDeathTest, EscapedCharacterThatIsNotPrintableIsNamedByItsOption) {
  for (const std::string text : {"name = \"a\\nb\"", "name = \"\\u0000\"", "name = \"\"\"a\nb\"\"\""}) {
    EXPECT_EXIT(Run({"--config", File(text + "\n")}), ExitedWithCode(2),
                "^program: config file [^\n]*: name holds a character that is not printable; see program --help\n$");
  }
}

TEST_F(ParseOrExitDeathTest, FileThatTheParserDidNotExpectIsOneLine) {
  EXPECT_EXIT(Run({"--config", File("[#a\n")}), ExitedWithCode(2), kAnyLine);
}

TEST_F(ParseOrExitDeathTest, HelpInTheFileBelongsOnTheCommandLine) {
  EXPECT_EXIT(Run({"--config", File("help = true\n")}), ExitedWithCode(2),
              "^program: config file [^\n]*: help belongs on the command line;");
}

TEST_F(ParseOrExitDeathTest, MissingFileIsNamed) {
  const std::string path = (directory_ / "absent.toml").string();
  EXPECT_EXIT(Run({"--config", path}), ExitedWithCode(2), "^program: [^\n]*absent.toml[^\n]*\n$");
}

TEST_F(ParseOrExitTest, ConfigFileOfAnyProgramIsReadAsItsOwnOptionsAre) {
  const auto read = ReadConfigFile(File("name = \"k\u00f6ln\"\ncount = 7\nloud = true\nunknown-key = \"x\"\n"));
  ASSERT_TRUE(read.ok()) << read.status().text();
  const std::map<std::string, std::string> wanted = {
      {"name", "k\xc3\xb6ln"}, {"count", "7"}, {"loud", "true"}, {"unknown-key", "x"}};
  EXPECT_EQ(read.value(), wanted);
  for (const char* text : {"name = [1]\n", "[#a", "name = \"\\u0007\"\n", "name = \xff\n"}) {
    const auto broken = ReadConfigFile(File(text));
    EXPECT_EQ(broken.status().code(), Code::kInvalidArgument) << text;
    EXPECT_EQ(broken.status().text().find('\n'), std::string::npos) << broken.status().text();
  }
  EXPECT_NE(ReadConfigFile(File("master = [\"a:1\", \"b:1\"]\n")).status().text().find("as one string"),
            std::string::npos);
  EXPECT_NE(ReadConfigFile(directory_ / "absent.toml").status().text().find("there is no"), std::string::npos);
  EXPECT_NE(ReadConfigFile("/dev/zero").status().text().find("too large"), std::string::npos);
  EXPECT_NE(ReadConfigFile("/proc/self/mem").status().text().find("cannot be read"), std::string::npos);
  EXPECT_NE(ReadConfigFile(directory_).status().text().find("is a directory"), std::string::npos);
}

TEST(ParseTest, MistakesBehindACommandPointToItsOwnHelp) {
  CLI::App app("A program.", "program");
  CLI::App* certs = app.add_subcommand("certs", "makes them");
  certs->add_subcommand("issue", "makes one")->add_option("--role")->required();
  const std::array argv = {"program", "certs", "issue"};
  const std::string text = Parse(app, argv.size(), argv.data()).text();
  EXPECT_TRUE(text.ends_with("--role is required; see program certs issue --help")) << text;
}

TEST(ParseTest, MistypedCommandIsNamedWithThoseThatThereAre) {
  CLI::App app("A program.", "program");
  app.fallthrough();
  app.add_flag("--json");
  CLI::App* certs = app.add_subcommand("certs", "makes them");
  certs->add_subcommand("issue", "makes one");
  certs->require_subcommand(1);
  app.add_subcommand("status", "shows it");
  app.require_subcommand(1);
  const std::array wrong = {"program", "--json", "statsu"};
  EXPECT_EQ(Parse(app, wrong.size(), wrong.data()).text(),
            "no command 'statsu': it is one of certs, status; see program --help");
  const std::array inner = {"program", "certs", "isue"};
  EXPECT_EQ(Parse(app, inner.size(), inner.data()).text(),
            "no command 'isue': it is one of issue; see program certs --help");
  const std::array none = {"program"};
  EXPECT_EQ(Parse(app, none.size(), none.data()).text().find("no command"), std::string::npos);
}

TEST(ChangedOptionsTest, NamesWhatIsNewGoneOrOther) {
  EXPECT_EQ(ChangedOptions({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "2"}}, ""), "");
  EXPECT_EQ(ChangedOptions({{"a", "1"}, {"b", "2"}, {"r", "3"}}, {{"b", "3"}, {"c", "4"}}, "r"), "b,c,a");
}

TEST(DieDeathTest, PrintsOneLineWhateverTheText) {
  EXPECT_EXIT(Die("program", "what\nwent\nwrong\n\n"), ExitedWithCode(2), "^program: what went wrong\n$");
}

}  // namespace
}  // namespace ringway::shell
