#include "tests/style/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ringway::style {
namespace {

namespace fs = std::filesystem;

bool EndsWithAny(const std::string& path, const std::vector<std::string>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& suffix) { return path.ends_with(suffix); });
}

std::string_view TrimLeft(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

// Removes comments and literals' contents from one line after the other.
class Stripper {
 public:
  std::string Strip(const std::string& line) {
    std::string out;
    for (std::size_t i = 0; i < line.size();) i = Step(line, i, &out);
    return out;
  }

 private:
  // Consumes what begins at `at`; returns where to go on.
  std::size_t Step(const std::string& line, std::size_t at, std::string* out) {
    if (in_comment_) return Until(line, at, "*/", &in_comment_);
    if (in_raw_string_) return Until(line, at, raw_end_, &in_raw_string_);
    const std::string_view rest = std::string_view(line).substr(at);
    if (rest.starts_with("//")) return line.size();
    if (rest.starts_with("/*")) {
      in_comment_ = true;
      return at + 2;
    }
    if (rest.starts_with("R\"")) {
      const std::size_t open = line.find('(', at);
      raw_end_ = ")" + line.substr(at + 2, open - at - 2) + "\"";
      in_raw_string_ = true;
      return open + 1;
    }
    // A quote after a digit separates digits.
    const bool opens_literal = line[at] == '"' || (line[at] == '\'' && (at == 0 || !IsDigit(line[at - 1])));
    if (opens_literal) return SkipLiteral(line, at);
    out->push_back(line[at]);
    return at + 1;
  }

  static bool IsDigit(char character) {
    return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'F') ||
           (character >= 'a' && character <= 'f');
  }

  static std::size_t Until(const std::string& line, std::size_t at, const std::string& end, bool* inside) {
    const std::size_t found = line.find(end, at);
    if (found == std::string::npos) return line.size();
    *inside = false;
    return found + end.size();
  }

  static std::size_t SkipLiteral(const std::string& line, std::size_t at) {
    const char quote = line[at];
    for (std::size_t i = at + 1; i < line.size(); ++i) {
      if (line[i] == '\\')
        ++i;
      else if (line[i] == quote)
        return i + 1;
    }
    return line.size();
  }

  bool in_comment_ = false;
  bool in_raw_string_ = false;
  std::string raw_end_;
};

bool ContainsWord(std::string_view text, std::string_view word) {
  const auto is_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_word(text[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// Returns whether a block with this text before its brace is a scope that can hold functions.
bool IsScope(std::string_view header) {
  if (ContainsWord(header, "namespace") || ContainsWord(header, "extern")) return true;
  if (header.find('(') != std::string_view::npos && !ContainsWord(header, "alignas") &&
      header.find("__attribute__") == std::string_view::npos) {
    return false;
  }
  return ContainsWord(header, "class") || ContainsWord(header, "struct") || ContainsWord(header, "union");
}

}  // namespace

bool IsUnder(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || prefix.ends_with('/') || path[prefix.size()] == '/';
}

std::vector<Include> ParseIncludes(const std::vector<std::string>& lines) {
  std::vector<Include> includes;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = TrimLeft(lines[i]);
    if (!line.starts_with('#')) continue;
    line = TrimLeft(line.substr(1));
    if (!line.starts_with("include")) continue;
    const std::size_t open = line.find_first_of("<\"");
    if (open == std::string_view::npos) continue;
    const std::size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    includes.push_back({i + 1, std::string(line.substr(open + 1, close - open - 1))});
  }
  return includes;
}

SourceFile ReadSource(const std::string& root, const std::string& path) {
  SourceFile file;
  file.path = path;
  std::ifstream stream(fs::path(root) / path);
  for (std::string line; std::getline(stream, line);) file.lines.push_back(std::move(line));
  file.includes = ParseIncludes(file.lines);
  return file;
}

std::vector<SourceFile> ReadTree(const std::string& root, const std::vector<std::string>& suffixes) {
  std::vector<std::string> paths;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = fs::relative(entry->path(), root).generic_string();
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_directory() && (is_hidden || path == "build")) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && !is_hidden && EndsWithAny(path, suffixes)) {
      paths.push_back(path);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back(ReadSource(root, path));
  return files;
}

std::vector<std::string> StripCommentsAndLiterals(const std::vector<std::string>& lines) {
  Stripper stripper;
  std::vector<std::string> stripped;
  stripped.reserve(lines.size());
  for (const std::string& line : lines) stripped.push_back(stripper.Strip(line));
  return stripped;
}

std::vector<Function> FindFunctions(const std::vector<std::string>& lines) {
  std::vector<Function> functions;
  std::vector<std::string> stripped = StripCommentsAndLiterals(lines);
  std::size_t scopes = 0;       // open namespaces and classes
  std::size_t inner_depth = 0;  // open braces inside the innermost block that is no scope
  Function current;
  std::string header;  // since the last ';', '{' or '}' at scope level
  for (std::size_t i = 0; i < stripped.size(); ++i) {
    if (TrimLeft(stripped[i]).starts_with('#')) continue;
    for (const char character : stripped[i]) {
      if (inner_depth > 0) {
        inner_depth += character == '{' ? 1 : 0;
        inner_depth -= character == '}' ? 1 : 0;
        if (inner_depth > 0 || character != '}') continue;
        if (header.find('(') != std::string::npos) {
          current.line_count = i + 2 - current.line;
          functions.push_back(current);
        }
        header.clear();
      } else if (character == '{' && IsScope(header)) {
        ++scopes;
        header.clear();
      } else if (character == '{') {
        current.line = i + 1;
        inner_depth = 1;
      } else if (character == '}' || character == ';') {
        scopes -= character == '}' && scopes > 0 ? 1 : 0;
        header.clear();
      } else {
        header.push_back(character);
      }
    }
    header.push_back(' ');
  }
  return functions;
}

}  // namespace ringway::style
