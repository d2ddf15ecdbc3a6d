#include "tests/style/source_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringway::style {
namespace {

using Lines = std::vector<std::string>;

TEST(SourceTreeTest, IncludesAreFoundInAllSpellings) {
  const std::vector<Include> includes =
      ParseIncludes({"#include <vector>", "  #  include \"proto/ids.h\"", "// #include <no>", "#define X"});
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[0].target, "vector");
  EXPECT_EQ(includes[1].target, "proto/ids.h");
  EXPECT_EQ(includes[1].line, 2U);
}

TEST(SourceTreeTest, CommentsAndLiteralsAreStripped) {
  const Lines stripped =
      StripCommentsAndLiterals({"a(\"{ // \\\"\", '{'); // {", "/* {", "{ */ b;", "c(R\"x({ )\"", "{)x\", 1'000);"});
  EXPECT_EQ(stripped, (Lines{"a(, ); ", "", " b;", "c(", ", 1'000);"}));
}

TEST(SourceTreeTest, FunctionsAreMeasuredFromBraceToBrace) {
  const Lines lines = {"namespace a {",
                       "struct B {",
                       "  int One() { return 1; }",
                       "  int two = 2;",
                       "};",
                       "void Long(int n) {",
                       "  if (n) {",
                       "    f([&] { g(); });",
                       "  }",
                       "}",
                       "constexpr int kTable[] = {",
                       "  1,",
                       "};",
                       "}  // namespace a"};
  const std::vector<Function> functions = FindFunctions(lines);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].line, 3U);
  EXPECT_EQ(functions[0].line_count, 1U);
  EXPECT_EQ(functions[1].line, 6U);
  EXPECT_EQ(functions[1].line_count, 5U);
}

TEST(SourceTreeTest, InitializerListsAndTemplatesDoNotHideFunctions) {
  const Lines lines = {"template <typename T>",
                       "class C {",
                       " public:",
                       "  C() : a_{1}, b_(2) {",
                       "    x();",
                       "  }",
                       "};",
                       "template <class T>",
                       "void F(struct S* s) {",
                       "}"};
  const std::vector<Function> functions = FindFunctions(lines);
  ASSERT_GE(functions.size(), 2U);
  EXPECT_EQ(functions.back().line, 9U);
  EXPECT_EQ(functions.back().line_count, 2U);
}

TEST(SourceTreeTest, PrefixesEndAtPathBoundaries) {
  EXPECT_TRUE(IsUnder("daemon/agreement/peer.h", "daemon/agreement"));
  EXPECT_TRUE(IsUnder("proto/local_abi.h", "proto/local_abi.h"));
  EXPECT_FALSE(IsUnder("daemon/core_more/peer.h", "daemon/agreement"));
  EXPECT_FALSE(IsUnder("daemon", "daemon/agreement"));
}

}  // namespace
}  // namespace ringway::style
