// Holds the seam between trainer and peer to one declaration of what is asked (abi::OpSpec) and of what came of it
// (abi::Outcome): a field of either is named where it is declared and where it is used, and copied nowhere.
//
// Objects of the two types are called `spec` and `outcome`, so that naming a field is `spec.priority`. The test counts
// the files of library, daemon and master; the public headers, and the bindings and programs over them, have names of
// their own for trainers.
#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace ringway::style {
namespace {

constexpr char kDeclaredIn[] = "proto/local_abi.h";
constexpr std::size_t kFilesMax = 5;

struct Code {
  std::string path;
  std::vector<std::string> lines;  // without comments and literals
};

bool IsProduct(const std::string& path) {
  return IsUnder(path, "client/src") || IsUnder(path, "daemon") || IsUnder(path, "proto") || IsUnder(path, "master");
}

const std::vector<Code>& ProductCode() {
  static const std::vector<Code> kCode = [] {
    std::vector<Code> code;
    for (const SourceFile& file : ReadTree(RINGWAY_SOURCE_DIR, {".h", ".hpp", ".cc"})) {
      if (IsProduct(file.path)) code.push_back({file.path, StripCommentsAndLiterals(file.lines)});
    }
    return code;
  }();
  return kCode;
}

std::set<std::string> FieldsOf(const std::string& type) {
  static const std::regex kField(R"(^  [\w:]+ (\w+)(\[\d+\])?;)");
  std::set<std::string> fields;
  for (const Code& file : ProductCode()) {
    if (file.path != kDeclaredIn) continue;
    bool inside = false;
    for (const std::string& line : file.lines) {
      if (line == "struct " + type + " {") inside = true;
      if (line == "};") inside = false;
      std::smatch field;
      if (inside && std::regex_search(line, field, kField)) fields.insert(field[1]);
    }
  }
  fields.erase("reserved");
  return fields;
}

bool IsOfWord(char character) { return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_'; }

// Returns whether the line has `object.field` or `object->field`, unless it is that of an `op`: an operation's outcome
// is what the ranks have agreed on, and of another type.
bool Names(const std::string& line, const std::string& object, const std::string& field) {
  for (const char* const accessor : {".", "->"}) {
    const std::string access = std::string(object).append(accessor).append(field);
    for (std::size_t at = line.find(access); at != std::string::npos; at = line.find(access, at + 1)) {
      const bool ends = at + access.size() == line.size() || !IsOfWord(line[at + access.size()]);
      const bool begins = at == 0 || !IsOfWord(line[at - 1]);
      const bool is_agreed = at >= 3 && line.compare(at - 3, 3, "op.") == 0;
      if (begins && ends && !is_agreed) return true;
    }
  }
  return false;
}

std::set<std::string> FilesThatName(const std::string& object, const std::string& field) {
  std::set<std::string> files = {kDeclaredIn};
  for (const Code& file : ProductCode()) {
    for (const std::string& line : file.lines) {
      if (Names(line, object, field)) files.insert(file.path);
    }
  }
  return files;
}

// `everywhere`: fields that every layer goes by, as they say what the operation is.
void ExpectFewFiles(const std::string& type, const std::string& object, const std::set<std::string>& everywhere) {
  const std::set<std::string> fields = FieldsOf(type);
  EXPECT_GT(fields.size(), 10U) << type << " is not where it was";
  for (const std::string& field : fields) {
    const std::set<std::string> files = FilesThatName(object, field);
    EXPECT_GT(files.size(), 1U) << type << "::" << field << " is named by nobody";
    if (everywhere.contains(field)) continue;
    std::string list;
    for (const std::string& file : files) list += "\n  " + file;
    EXPECT_LE(files.size(), kFilesMax) << type << "::" << field << " is named in" << list;
  }
}

TEST(SeamTest, AFieldOfASpecIsNamedInFewFiles) { ExpectFewFiles("OpSpec", "spec", {"kind", "dtype", "channel"}); }

TEST(SeamTest, AFieldOfAnOutcomeIsNamedInFewFiles) { ExpectFewFiles("Outcome", "outcome", {"code"}); }

// Else the test above would not see them.
TEST(SeamTest, SpecsAndOutcomesAreCalledSo) {
  const std::regex declaration(R"(\b(?:abi::(OpSpec|Outcome)|(OpSpec))\s*[&*]?\s+(\w+))");
  for (const Code& file : ProductCode()) {
    for (const std::string& line : file.lines) {
      if (line.find("OpSpec") == std::string::npos && line.find("abi::Outcome") == std::string::npos) continue;
      for (std::sregex_iterator match(line.begin(), line.end(), declaration), end; match != end; ++match) {
        const std::string type = (*match)[1].str() + (*match)[2].str();
        EXPECT_EQ((*match)[3], type == "OpSpec" ? "spec" : "outcome") << file.path << ": " << line;
      }
    }
  }
}

// A twin has the same fields, and somebody copies them one by one. The Descriptor is none: it is what travels on lanes.
TEST(SeamTest, NoOtherStructOfTheSeamHasTheirFields) {
  constexpr std::size_t kSharedMax = 4;
  std::set<std::string> ours = FieldsOf("OpSpec");
  ours.merge(FieldsOf("Outcome"));
  const std::regex field(R"(^  [\w:<>]+ (\w+)(?: = [^;()]*|\{\})?;)");
  for (const Code& file : ProductCode()) {
    if (!IsUnder(file.path, "client/src") && !IsUnder(file.path, "daemon")) continue;
    std::set<std::string> shared;
    for (const std::string& line : file.lines) {
      if (line.starts_with("struct ") || line.starts_with("class ")) shared.clear();
      std::smatch match;
      if (line.starts_with("  ") && line.ends_with(";") && std::regex_search(line, match, field) &&
          ours.contains(match[1]))
        shared.insert(match[1]);
      ASSERT_LE(shared.size(), kSharedMax) << file.path << " has a twin, with a field " << line;
    }
  }
}

}  // namespace
}  // namespace ringway::style
