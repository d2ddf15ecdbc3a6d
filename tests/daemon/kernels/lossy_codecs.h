// The codecs of the table that lose precision: those that have functions of their own.
#pragma once

#include <ringway/types.h>

#include <vector>

namespace ringway::kernels {

inline std::vector<Codec> LossyCodecs() {
  std::vector<Codec> codecs;
  for (const CodecInfo& info : kCodecs) {
    if (info.error.relative_max > 0) codecs.push_back(info.codec);
  }
  return codecs;
}

}  // namespace ringway::kernels
