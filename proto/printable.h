// Names and other words of people. Values; any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ringway {

// Returns whether people can read it on one line: no control characters.
inline bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  return true;
}

// Returns it with a ? in place of each control character: what a terminal prints as it is.
inline std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](const char& c) {
        return !IsPrintable({&c, 1});
      },
      '?');
  return text;
}

}  // namespace ringway
