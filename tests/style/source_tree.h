// The project's own source files, as the style tests see them.
//
// Paths are relative to the root, with '/'. Everything is read once; plain values, no threads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringway::style {

struct Include {
  std::size_t line = 0;  // from 1
  std::string target;    // what stands between the quotes or brackets
};

struct SourceFile {
  std::string path;
  std::vector<std::string> lines;
  std::vector<Include> includes;
};

// A function's body: `line` is where its opening brace is, from 1; `line_count` goes from there to its closing brace.
struct Function {
  std::size_t line = 0;
  std::size_t line_count = 0;
};

// All files below the root with one of the suffixes (".cc"), sorted; build/ and hidden directories are left out.
std::vector<SourceFile> ReadTree(const std::string& root, const std::vector<std::string>& suffixes);

SourceFile ReadSource(const std::string& root, const std::string& path);
std::vector<Include> ParseIncludes(const std::vector<std::string>& lines);

// The lines without comments and without what strings and character literals contain.
std::vector<std::string> StripCommentsAndLiterals(const std::vector<std::string>& lines);

// Bodies of functions, by counting braces: a block is a function's if it opens directly inside a namespace, a class or
// the file and its header ends with a parameter list. Lambdas count to the function around them.
std::vector<Function> FindFunctions(const std::vector<std::string>& lines);

// Returns whether `path` is `prefix` or lies below it ("daemon/agreement" is a prefix of "daemon/agreement/peer.h").
bool IsUnder(std::string_view path, std::string_view prefix);

}  // namespace ringway::style
