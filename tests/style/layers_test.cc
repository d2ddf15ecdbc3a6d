// Holds the tree to its layers: who may include whom, which parts are pure, how large things get. No exceptions list:
// if this test is in the way, change the code.
//
// A folder is a layer. Pure ones are state machines and arithmetic: events and the time go in, actions come out.
//
//   proto/   contracts and base   collective/: pure   device/, stream/, tls/   shell/: for programs only (options)
//   master/  planning/, coordination/, leadership/: pure   |  shell/
//   daemon/  kernels/, buffers/, collective/, links/, flow/, transfer/, agreement/, flight/: pure
//           net/, local/, staging/, runtime/
//   client/  include, src: the library   |  examples, bench, ctl, python
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/style/source_tree.h"

namespace ringway::style {
namespace {

namespace fs = std::filesystem;

constexpr char kRoot[] = RINGWAY_SOURCE_DIR;
constexpr std::size_t kFileLinesMax = 500;
constexpr std::size_t kFunctionLinesMax = 70;

const std::vector<SourceFile>& Sources() {
  static const std::vector<SourceFile> kSources = ReadTree(kRoot, {".h", ".hpp", ".cc", ".cu", ".cuh"});
  return kSources;
}

bool IsUnderAny(std::string_view path, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return IsUnder(path, prefix); });
}

// A part of the tree and what of ours it may include besides itself. The first part that a file is in counts.
struct Layer {
  std::string name;
  std::vector<std::string> may_include;
};

const std::vector<Layer>& Layers() {
  static const std::vector<Layer> kLayers = {
      {"proto/shell", {"proto", "ringway"}},
      {"proto/collective", {"proto", "ringway/types.h"}},
      {"proto/device", {"ringway/types.h", "ringway/result.hpp"}},
      {"proto/stream", {"proto", "ringway/types.h"}},
      {"proto/tls", {"proto", "ringway/types.h"}},
      {"proto", {"ringway/types.h", "ringway/op_kind.h", "ringway/result.hpp"}},
      {"master/planning", {"proto", "ringway/types.h"}},
      {"master/coordination", {"proto", "ringway/types.h", "master/planning"}},
      {"master/leadership", {"proto", "ringway/types.h", "master/coordination"}},
      {"master/shell", {"proto", "ringway/types.h", "master"}},
      {"daemon/kernels", {"proto", "ringway/types.h"}},
      {"daemon/buffers", {"proto", "ringway/types.h", "daemon/kernels"}},
      {"daemon/collective", {"proto", "ringway/types.h", "daemon/kernels"}},
      {"daemon/links", {"proto", "ringway/types.h", "daemon/collective"}},
      {"daemon/flow", {"proto", "ringway/types.h"}},
      {"daemon/transfer",
       {"proto", "ringway/types.h", "daemon/kernels", "daemon/buffers", "daemon/collective", "daemon/links"}},
      {"daemon/agreement",
       {"proto", "ringway/types.h", "daemon/kernels", "daemon/buffers", "daemon/collective", "daemon/links",
        "daemon/flow", "daemon/transfer"}},
      {"daemon/flight", {"proto", "ringway/types.h"}},
      {"daemon/net", {"proto", "ringway/types.h", "daemon/links"}},
      {"daemon/local", {"proto", "ringway/types.h", "daemon/buffers", "daemon/net"}},
      {"daemon/staging", {"proto", "ringway/types.h", "daemon/kernels", "daemon/buffers"}},
      {"daemon/runtime", {"proto", "ringway/types.h", "daemon"}},
      {"client/include", {"ringway"}},
      {"client/src", {"ringway", "proto/local_abi.h", "proto/device", "client"}},
      {"client/examples", {"ringway"}},
      {"client/bench", {"ringway", "proto"}},
      {"client/ctl", {"ringway", "proto"}},
      {"client/python", {"ringway", "proto/device"}},
      {"tests", {"ringway", "proto", "master", "daemon", "client"}},
  };
  return kLayers;
}

const Layer* LayerOf(std::string_view path) {
  const auto found =
      std::find_if(Layers().begin(), Layers().end(), [&](const Layer& layer) { return IsUnder(path, layer.name); });
  return found == Layers().end() ? nullptr : &*found;
}

// Returns whether an include names a file of ours.
bool IsOurs(std::string_view target) {
  return IsUnderAny(target, {"proto", "master", "daemon", "client", "tests", "ringway"});
}

bool IsPure(std::string_view path) {
  return IsUnderAny(path, {"proto/collective", "master/planning", "master/coordination", "master/leadership",
                           "daemon/kernels", "daemon/buffers", "daemon/collective", "daemon/links", "daemon/flow",
                           "daemon/transfer", "daemon/agreement", "daemon/flight", "proto/flight"});
}

std::string Where(const SourceFile& file, std::size_t line) { return file.path + ":" + std::to_string(line) + ": "; }

// Looks at code, not at comments or literals.
void ExpectNone(const std::vector<std::string>& words, const SourceFile& file, const std::string& why) {
  const std::vector<std::string> code = StripCommentsAndLiterals(file.lines);
  for (std::size_t i = 0; i < code.size(); ++i) {
    for (const std::string& word : words) {
      EXPECT_EQ(code[i].find(word), std::string::npos) << Where(file, i + 1) << why << word;
    }
  }
}

TEST(LayersTest, TheTreeIsThere) {
  EXPECT_GT(Sources().size(), 50U) << "no sources below " << kRoot;
  for (const SourceFile& file : Sources()) EXPECT_NE(LayerOf(file.path), nullptr) << file.path << " is in no layer";
}

TEST(LayersTest, LayersIncludeOnlyWhatTheyMay) {
  for (const SourceFile& file : Sources()) {
    const Layer* layer = LayerOf(file.path);
    if (layer == nullptr) continue;  // reported above
    for (const Include& include : file.includes) {
      if (!IsOurs(include.target)) continue;
      EXPECT_TRUE(IsUnder(include.target, layer->name) || IsUnderAny(include.target, layer->may_include))
          << Where(file, include.line) << layer->name << " may not include " << include.target;
    }
  }
}

TEST(LayersTest, PureFilesIncludeNoShell) {
  for (const SourceFile& file : Sources()) {
    if (!IsPure(file.path)) continue;
    for (const Include& include : file.includes) {
      const bool is_impure_part = IsUnderAny(include.target, {"master", "daemon"}) && !IsPure(include.target);
      EXPECT_FALSE(is_impure_part) << Where(file, include.line) << "a pure part may not include " << include.target;
    }
  }
}

TEST(LayersTest, PureFilesHaveNoInputButTheirArguments) {
  const std::set<std::string> headers = {"thread",   "mutex",    "shared_mutex", "condition_variable", "future",
                                         "random",   "iostream", "fstream",      "filesystem",         "csignal",
                                         "unistd.h", "poll.h",   "fcntl.h",      "pthread.h",          "ctime"};
  const std::vector<std::string> folders = {"asio", "asio.hpp", "spdlog", "sys",   "netinet",
                                            "arpa", "linux",    "CLI",    "toml++"};
  const std::vector<std::string> words = {"MonotonicNow", "::now(", "getenv",   "random_device",
                                          "std::rand",    "srand(", "spdlog::", "asio::"};
  for (const SourceFile& file : Sources()) {
    if (!IsPure(file.path)) continue;
    for (const Include& include : file.includes) {
      EXPECT_FALSE(headers.contains(include.target) || IsUnderAny(include.target, folders))
          << Where(file, include.line) << "a pure part may not include " << include.target;
    }
    ExpectNone(words, file, "a pure part may not use ");
  }
}

// Clocks that somebody can set. The log's lines carry the time of day through spdlog's pattern, nothing else does.
TEST(LayersTest, NothingAsksForTheTimeOfDay) {
  const std::vector<std::string> words = {
      "system_clock",  "utc_clock",      "high_resolution_clock",  // may be settable
      "system_timer",  "CLOCK_REALTIME", "gettimeofday",          "std::time(",
      "time(nullptr)", "time(NULL)",     "timespec_get",          "pthread_cond_timedwait"};
  for (const SourceFile& file : Sources()) ExpectNone(words, file, "clocks that jump decide nothing: no ");
}

// A test can then simulate the time of all that has an event loop (proto/stream/timer.h).
TEST(LayersTest, DaemonAsksItsLoopsForTheTime) {
  const std::vector<std::string> words = {"MonotonicNow", "::now(", "steady_timer"};
  for (const SourceFile& file : Sources()) {
    if (IsUnder(file.path, "daemon")) ExpectNone(words, file, "time comes from the loop's clock: no ");
  }
}

TEST(LayersTest, OnlyShellsIncludeTheShell) {
  for (const SourceFile& file : Sources()) {
    const bool is_shell =
        IsUnderAny(file.path, {"proto/shell", "master", "daemon", "client/ctl", "client/bench", "tests"});
    if (is_shell && !IsPure(file.path)) continue;
    for (const Include& include : file.includes) {
      EXPECT_FALSE(IsUnder(include.target, "proto/shell"))
          << Where(file, include.line) << "options, logging and readiness belong to programs";
    }
  }
}

TEST(LayersTest, TheClientLinksNothingForeign) {
  for (const SourceFile& file : Sources()) {
    if (!IsUnderAny(file.path, {"client/include", "client/src", "client/examples"})) continue;
    for (const Include& include : file.includes) {
      if (file.path == "client/src/state/hashing.cc" && include.target == "xxhash.h") continue;  // compiled in
      EXPECT_FALSE(IsUnderAny(include.target, {"asio", "asio.hpp", "spdlog", "google", "CLI", "toml++", "nlohmann"}) ||
                   include.target.ends_with(".pb.h") || include.target == "xxhash.h")
          << Where(file, include.line) << "the client library needs libc and the C++ runtime only";
    }
  }
}

TEST(LayersTest, CudaStaysInStagingAndInCudaSources) {
  for (const SourceFile& file : Sources()) {
    if (file.path.ends_with(".cu") || file.path.ends_with(".cuh") || IsUnder(file.path, "daemon/staging") ||
        IsUnder(file.path, "tests/daemon/staging"))
      continue;
    for (const Include& include : file.includes) {
      EXPECT_FALSE(include.target.starts_with("cuda") || include.target.starts_with("cub/"))
          << Where(file, include.line) << include.target;
    }
  }
}

TEST(SizesTest, FilesStaySmall) {
  std::vector<SourceFile> files = ReadTree(kRoot, {".sh", ".awk", ".proto", "CMakeLists.txt"});
  files.insert(files.end(), Sources().begin(), Sources().end());
  for (const SourceFile& file : files) {
    EXPECT_LE(file.lines.size(), kFileLinesMax) << file.path << " has " << file.lines.size() << " lines";
  }
}

// clang-format does not wrap comments, for it would take tables for prose.
TEST(SizesTest, CommentsFitTheLine) {
  constexpr std::size_t kColumns = 120;
  for (const SourceFile& file : Sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const bool is_comment = line.find("//") == line.find_first_not_of(' ') && !line.empty();
      EXPECT_TRUE(!is_comment || line.size() <= kColumns) << Where(file, i + 1) << line.size() << " columns";
    }
  }
}

TEST(SizesTest, FunctionsStaySmall) {
  for (const SourceFile& file : Sources()) {
    for (const Function& function : FindFunctions(file.lines)) {
      EXPECT_LE(function.line_count, kFunctionLinesMax)
          << Where(file, function.line) << "a function of " << function.line_count << " lines";
    }
  }
}

TEST(TreeTest, HeadersSayWhatTheyAreAndAreIncludedOnce) {
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") && !file.path.ends_with(".hpp")) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines[0].starts_with("//") || file.lines[0].starts_with("/*"))
        << file.path << " does not begin with a comment on what it is";
    const bool is_guarded = std::any_of(file.lines.begin(), file.lines.end(), [](const std::string& line) {
      return line == "#pragma once" || line.starts_with("#ifndef RINGWAY_");
    });
    EXPECT_TRUE(is_guarded) << file.path << " has no #pragma once";
  }
}

// What an object calls on its owner or its user has one suffix.
TEST(NamesTest, InterfacesThatAreCalledBackAreSinks) {
  const std::regex kOther(R"(^\s*class \w*(Port|Host|Waiter|Callee|Observer|Delegate|Handler|Callback|Listener) \{)");
  std::size_t sinks = 0;
  for (const SourceFile& file : Sources()) {
    for (std::size_t i = 0; i + 2 < file.lines.size(); ++i) {
      if (file.lines[i + 2].find("virtual ~") == std::string::npos) continue;
      EXPECT_FALSE(std::regex_search(file.lines[i], kOther)) << Where(file, i + 1) << "name it a Sink";
      sinks += file.lines[i].find("Sink {") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(sinks, 5U) << "the test no longer recognizes an interface";
}

TEST(TreeTest, TopLevelHoldsOnlyWhatBelongsThere) {
  const std::set<std::string> allowed = {".ci",        ".clang-format", ".clang-tidy",    ".git",
                                         ".gitignore", "build",         "CMakeLists.txt", "CMakePresets.json",
                                         "README.md",  "LICENSE",       "client",         "daemon",
                                         "deploy",     "master",        "proto",          "tests"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(allowed.contains(name)) << name << " does not belong at the top";
  }
}

TEST(TreeTest, EverySourceIsBuilt) {
  std::string built;  // every path that a CMakeLists.txt names, one a line
  for (const SourceFile& file : ReadTree(kRoot, {"CMakeLists.txt"})) {
    const std::string directory = file.path.substr(0, file.path.size() - std::string("CMakeLists.txt").size());
    for (const std::string& line : file.lines) {
      std::string word;
      for (const char character : line + " ") {
        const bool ends_word =
            character == ' ' || character == '\t' || character == '(' || character == ')' || character == '"';
        if (!ends_word) {
          word.push_back(character);
          continue;
        }
        if (!word.empty()) built.append("\n").append(directory).append(word);
        word.clear();
      }
    }
  }
  built += "\n";
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".cc") && !file.path.ends_with(".cu")) continue;
    EXPECT_NE(built.find("\n" + file.path + "\n"), std::string::npos) << file.path << " is named in no CMakeLists.txt";
  }
}

}  // namespace
}  // namespace ringway::style
