// How an Encoding is written in packets, headers and messages: the codec's number, its block as a power of two, and the
// rounding's number. A power of 0 is the codec's own block, as all had that were written before there was a choice.
#pragma once

#include <ringway/types.h>

#include <cstdint>

namespace ringway {

struct EncodingCode {
  std::uint8_t codec = 0;
  std::uint8_t block_power = 0;
  std::uint8_t rounding = 0;
};

// An invalid encoding has an invalid code.
constexpr EncodingCode CodeOf(const Encoding& encoding) {
  EncodingCode code{static_cast<std::uint8_t>(encoding.codec), 0, static_cast<std::uint8_t>(encoding.rounding)};
  if (encoding.block == Encoding(encoding.codec).block) return code;
  while (code.block_power < 16 && (std::uint32_t{1} << code.block_power) < encoding.block) ++code.block_power;
  // Power 0, of a block of 1, stands for the codec's own.
  const bool is_power = code.block_power > 0 && (std::uint32_t{1} << code.block_power) == encoding.block;
  if (!is_power) code.block_power = UINT8_MAX;
  return code;
}

// Any code is taken; IsValid says whether it is one.
constexpr Encoding EncodingOf(const EncodingCode& code) {
  Encoding encoding(static_cast<Codec>(code.codec));
  if (code.block_power > 0)
    encoding.block = static_cast<std::uint16_t>(std::uint32_t{1} << (code.block_power < 16 ? code.block_power : 0));
  encoding.rounding = static_cast<Rounding>(code.rounding);
  return encoding;
}

}  // namespace ringway
