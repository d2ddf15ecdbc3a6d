#include "daemon/collective/input_set.h"

#include "proto/segment_header.h"

namespace ringway::collective {
namespace {

alignas(64) std::byte zeros[kPayloadBytesMax];  // nothing writes there, so it takes no memory

}  // namespace

const std::byte* Zeros() { return zeros; }

}  // namespace ringway::collective
