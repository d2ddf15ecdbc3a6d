// What README shows of a source is that source.
#include <gtest/gtest.h>

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
  const SourceFile in_c = ReadSource(RINGWAY_SOURCE_DIR, "client/examples/shortest/shortest.c");
  EXPECT_EQ(Between(readme.lines, "```c", "```"), Between(in_c.lines, "/* [readme] */", "/* [/readme] */"));
}

}  // namespace
}  // namespace ringway::style
