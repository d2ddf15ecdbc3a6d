// Comments and pages consist of sentences: none begins with "Of", no list trails off in two dots, and events are
// reported or notified. A regular expression finds what breaks these house rules.
#include <gtest/gtest.h>

#include <cstddef>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace ringway::style {
namespace {

using Lines = std::vector<std::string>;

// Returns the comment of a line of code, which follows `mark`; "" if there is none.
std::string CommentOf(const std::string& line, const std::string& mark) {
  for (std::size_t at = line.find(mark); at != std::string::npos; at = line.find(mark, at + 1)) {
    const std::size_t text = line.find_first_not_of(mark.front(), at);
    if (text == std::string::npos || line[text] == '!') return "";  // #! names an interpreter
    if (at == 0 || line[at - 1] == ' ') return line.substr(text);
  }
  return "";
}

// Returns the prose of each line: comments of sources, and pages without their code blocks.
Lines ProseOf(const SourceFile& file) {
  const bool is_page = file.path.ends_with(".md");
  const std::string mark = file.path.ends_with(".py") ? "#" : "//";
  bool in_code = false;
  Lines prose;
  for (const std::string& line : file.lines) {
    const bool is_fence = is_page && line.find_first_not_of(' ') == line.find("```") && line.find("```") != line.npos;
    in_code = in_code != is_fence;
    prose.push_back(!is_page ? CommentOf(line, mark) : in_code || is_fence ? "" : line);
  }
  return prose;
}

// Returns what to write instead; "" if the line breaks no rule.
std::string AdviceFor(const std::string& prose) {
  const auto has = [&](const char* text) { return prose.find(text) != std::string::npos; };
  if (!has("old") && !has("Of") && !has("..")) return "";  // regular expressions are slow
  static const std::regex told("\\b([Uu]n)?[Tt]old\\b");
  static const std::regex of("(^[-*>\\s]*|[.:;!?|]\\s+)Of(\\s|$)");
  static const std::regex range("[\\w)}\\]`'+%] \\.\\. [\\w({\\[`'+-]");  // "1 .. K", "a(0) .. a(n)"
  static const std::regex trailing("(^|[\\s,(])\\.\\.([\\s,)]|$)");
  if (std::regex_search(prose, told)) return "\"told\": write reported, notified, learns, or pending";
  if (std::regex_search(prose, of))
    return "a sentence begins with \"Of\": begin it with its subject or with \"Returns\"";
  if (std::regex_search(std::regex_replace(prose, range, ""), trailing))
    return "\"..\" continues a list: name the rest, or write \"and others\"; in a signature or diagram write \"...\"";
  return "";
}

TEST(ProseTest, CommentsAndPagesAreSentences) {
  std::size_t count = 0;
  for (const SourceFile& file :
       ReadTree(RINGWAY_SOURCE_DIR, {".cc", ".h", ".hpp", ".cu", ".inc", ".proto", ".py", ".md"})) {
    const Lines prose = ProseOf(file);
    for (std::size_t i = 0; i < prose.size(); ++i) {
      count += prose[i].empty() ? 0 : 1;
      const std::string advice = AdviceFor(prose[i]);
      EXPECT_TRUE(advice.empty()) << file.path << ':' << i + 1 << ": " << advice << "\n " << prose[i];
    }
  }
  EXPECT_GT(count, 10'000u) << "are there no comments any more?";
}

TEST(ProseTest, CommentsAreFoundInSourcesAndProseInPages) {
  EXPECT_EQ(ProseOf({"a.cc", {"f();  // one", "g(\"http://x\");", "// two"}, {}}), (Lines{" one", "", " two"}));
  EXPECT_EQ(ProseOf({"a.py", {"#!/bin/sh", "x = 1  # one", "#two"}, {}}), (Lines{"", " one", "two"}));
  EXPECT_EQ(ProseOf({"a.md", {"one", "```", "code", "```", "| two |"}, {}}), (Lines{"one", "", "", "", "| two |"}));
}

TEST(ProseTest, RangesAndPathsAreNoLists) {
  for (const char* good : {" 0 .. n - 1", " first .. last of them", " w0 + .. + wi", " ../proto/ids.h", " f(a, ...)"})
    EXPECT_EQ(AdviceFor(good), "") << good;
  for (const char* bad : {" a, b, ..", " f(a, ..)", " .. and then", " 1 min .., each", " a --> .. --> b"})
    EXPECT_NE(AdviceFor(bad), "") << bad;
}

TEST(ProseTest, WordsOfTheDialectAreFound) {
  for (const char* good : {" Half of it.", " epoch.Of(1)", " the toll", " OfRank(1)"})
    EXPECT_EQ(AdviceFor(good), "") << good;
  for (const char* bad : {" Of each rank.", "| a | Of b |", " It ends. Of", " who is told", " Untold ones."})
    EXPECT_NE(AdviceFor(bad), "") << bad;
}

}  // namespace
}  // namespace ringway::style
