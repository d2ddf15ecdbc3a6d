// Names and other words of people. Values; any thread.
#pragma once

#include <string_view>

namespace ringway {

// Returns whether people can read it on one line: no control characters.
inline bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  return true;
}

}  // namespace ringway
