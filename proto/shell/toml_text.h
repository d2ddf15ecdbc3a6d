// Reads TOML that an operator has written: scalar values at the top and in tables of one level. Whatever the bytes,
// they are read or refused with one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/result.h"

namespace ringway::shell {

// A value that is no scalar: an array, a date, an empty table, or a table inside a table.
struct TomlOther {
  friend bool operator==(const TomlOther&, const TomlOther&) = default;
};

struct TomlValue {
  std::optional<std::string> table;  // nothing: at the top
  std::string key;
  std::variant<TomlOther, std::string, std::int64_t, double, bool> value;
  bool is_octal = false;  // an integer that is written so
  std::size_t line = 0;
};

// Sorted by key. `what`: the file, for the errors: kInvalidArgument, "WHAT, line N: ...".
Result<std::vector<TomlValue>> ReadToml(std::string text, const std::string& what);

// Reads a file of at most `bytes_max` bytes. kInvalidArgument says why it cannot.
Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max);
// Why a file that could not be read could not.
std::string WhyUnreadable(const std::string& path);

// Whether the text is UTF-8.
bool IsUtf8(const std::string& text);

}  // namespace ringway::shell
