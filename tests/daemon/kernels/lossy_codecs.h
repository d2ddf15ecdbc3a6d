// The codecs of the table that lose precision: those that have functions of their own.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <vector>

namespace ringway::kernels {

inline std::vector<Codec> LossyCodecs() {
  std::vector<Codec> codecs;
  for (const CodecInfo& info : kCodecs) {
    if (info.error.relative_max > 0) codecs.push_back(info.codec);
  }
  return codecs;
}

// A codec with each of its block sizes, or without.
inline std::vector<Encoding> EncodingsOf(Codec codec) {
  std::vector<Encoding> encodings;
  for (std::uint16_t block = kBlockMin; HasBlocks(codec) && block <= kBlockMax;
       block = static_cast<std::uint16_t>(2 * block)) {
    encodings.emplace_back(codec, block);
  }
  if (encodings.empty()) encodings.emplace_back(codec);
  return encodings;
}

}  // namespace ringway::kernels
