#include "daemon/agreement/messages.h"

#include <cstdint>
#include <limits>

namespace ringway::agreement {

Result<Descriptor> DescriptorFrom(const control::Ready& ready) {
  for (const std::uint32_t number : {ready.kind(), ready.dtype(), ready.op(), ready.codec(), ready.algorithm()}) {
    if (number <= std::numeric_limits<std::uint8_t>::max()) continue;
    return Status(Code::kProtocol, "READY describes what no segment can carry");
  }
  return Descriptor{.kind = static_cast<OpKind>(ready.kind()),
                    .dtype = static_cast<DType>(ready.dtype()),
                    .op = static_cast<ReduceOp>(ready.op()),
                    .codec = static_cast<Codec>(ready.codec()),
                    .schedule = static_cast<Algorithm>(ready.algorithm()),
                    .count = ready.count()};
}

}  // namespace ringway::agreement
