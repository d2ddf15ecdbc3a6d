// Texts in arrays of a fixed size: of packets and of files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ringway {

// Copies the text, cut to what fits, and fills the rest with NUL: at least one.
template <std::size_t N>
void SetText(char (&to)[N], std::string_view from) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::fill(std::copy_n(from.begin(), length, to), to + N, '\0');
}

}  // namespace ringway
