// Names in notes of the form "key=value key=value". Values; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ringway {

// Whether people can read it on one line: no control characters.
inline bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  return true;
}

// The name as one value: as it is or, where it could be taken for several, in quotation marks, as JSON writes it.
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
