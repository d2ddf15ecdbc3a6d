#include "client/bench/collective.h"

namespace ringway::bench {

Expected<Work> StartCollective(Session& session, OpKind collective, const Reduction& reduction, const Buffers& buffers,
                               OpOptions options) {
  const auto& [dtype, op, codec, feedback] = reduction;
  const auto& [input, count, output, output_count] = buffers;
  options.codec = codec;
  switch (collective) {
    case OpKind::kAllGather:
      return session.AllGatherAsync(input, count, output, output_count, dtype, options);
    case OpKind::kReduceScatter:
      return session.ReduceScatterAsync(input, output, count, dtype, op, options);
    case OpKind::kAllReduce:
    case OpKind::kUpdateView:
      break;
  }
  return session.AllReduceAsync(input, output, count, dtype, op, options);
}

}  // namespace ringway::bench
