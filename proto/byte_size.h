// Buffer sizes as text, and their size classes (powers of two). Values; any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringway {

inline constexpr std::uint64_t kByteSizeMax = std::uint64_t{1} << 46;

// Parses "4096", "4K", "256M", "2G": binary multiples, up to kByteSizeMax. Returns nothing for other text.
inline std::optional<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMG";
  constexpr std::size_t kDigitsMax = 15;
  std::uint64_t number = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits == kDigitsMax) return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(text[digits] - '0');
  }
  if (digits == 0 || text.size() > digits + 1) return std::nullopt;
  std::size_t shift = 0;
  if (text.size() > digits) {
    const std::size_t suffix = kSuffixes.find(text.back());
    if (suffix == std::string_view::npos) return std::nullopt;
    shift = 10 * (suffix + 1);
  }
  if (number > kByteSizeMax >> shift) return std::nullopt;
  return number << shift;
}

// Returns the shortest text that ParseBytes reads as this size.
inline std::string BytesText(std::uint64_t bytes) {
  std::size_t suffix = 0;
  for (; suffix < 3 && bytes > 0 && bytes % 1024 == 0; ++suffix) bytes /= 1024;
  constexpr const char* kSuffixes[] = {"", "K", "M", "G"};
  return std::to_string(bytes) + kSuffixes[suffix];
}

// Class c holds the sizes above 2^(c-1) and up to 2^c bytes; class 0 those of 0 and 1.
constexpr std::uint32_t SizeClassOf(std::uint64_t bytes) {
  return bytes <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(bytes - 1));
}
inline constexpr std::uint32_t kSizeClassCount = 65;

}  // namespace ringway
