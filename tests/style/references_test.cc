// Files that comments and pages name are there.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace ringway::style {
namespace {

std::string LastPartOf(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// Returns the whole line of a page, or what follows the first "//" of a source's line.
std::string ProseOf(const SourceFile& file, const std::string& line) {
  if (file.path.ends_with(".md")) return line;
  const std::size_t comment = line.find("//");
  return comment == std::string::npos ? "" : line.substr(comment);
}

// The names of files in it, but for those of the system's headers and for placeholders (NAME.h).
std::vector<std::string> FilesNamedIn(const std::string& prose) {
  static const std::regex kFile("(^|[^\\w./<>*$-])([\\w./-]*\\w\\.(h|hpp|cc|cu|py|proto|md))\\b");
  static const std::regex kForeign("^(linux|netinet|sys)/|NAME\\.");
  std::vector<std::string> out;
  for (std::sregex_iterator match(prose.begin(), prose.end(), kFile); match != std::sregex_iterator(); ++match) {
    if (!std::regex_search((*match)[2].str(), kForeign)) out.push_back((*match)[2]);
  }
  return out;
}

TEST(ReferencesTest, FindTheFilesThatALineNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(FilesNamedIn("// as peer.h says (daemon/agreement/bind_to_world.cc)."),
            (Names{"peer.h", "daemon/agreement/bind_to_world.cc"}));
  EXPECT_EQ(FilesNamedIn("see [it](../deploy/README.md#packages)"), (Names{"../deploy/README.md"}));
  EXPECT_EQ(FilesNamedIn("// NAME.h, <vector.h>, linux/virtio_net.h, 3.hundred"), Names());
}

TEST(ReferencesTest, FilesThatCommentsAndPagesNameExist) {
  std::set<std::string> names;
  for (const SourceFile& file : ReadTree(RINGWAY_SOURCE_DIR, {".h", ".hpp", ".cc", ".cu", ".py", ".proto", ".md"})) {
    names.insert(LastPartOf(file.path));
  }
  std::size_t seen = 0;
  for (const SourceFile& file : ReadTree(RINGWAY_SOURCE_DIR, {".h", ".hpp", ".cc", ".cu", ".inc", ".proto", ".md"})) {
    if (file.path.starts_with("tests/style/")) continue;  // whose tests name files that are not there
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& named : FilesNamedIn(ProseOf(file, file.lines[i]))) {
        ++seen;
        EXPECT_TRUE(names.contains(LastPartOf(named))) << file.path << ":" << i + 1 << " names " << named;
      }
    }
  }
  EXPECT_GT(seen, 100u);
}

}  // namespace
}  // namespace ringway::style
