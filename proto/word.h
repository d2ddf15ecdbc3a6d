// Quoting of names in notes of the form "key=value key=value". Values; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ringway {

// Returns whether the text has no control characters.
inline bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  return true;
}

// Returns the name as one value: unchanged, or as a JSON string if it could be taken for several values.
inline std::string Word(std::string_view name) {
  if (!name.empty() && name.find_first_of(" \"\\=") == std::string_view::npos && IsPrintable(name)) {
    return std::string(name);
  }
  constexpr std::array<char, 17> kDigits = {"0123456789abcdef"};
  std::string word = "\"";
  for (const char c : name) {
    if (!IsPrintable({&c, 1})) {
      const auto code = static_cast<unsigned char>(c);
      word.append("\\u00").append(1, kDigits[code >> 4]).append(1, kDigits[code & 15]);
    } else {
      if (c == '"' || c == '\\') word += '\\';
      word += c;
    }
  }
  return word + '"';
}

}  // namespace ringway
