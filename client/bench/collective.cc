#include "client/bench/collective.h"

#include <vector>

#include "client/bench/uneven.h"

namespace ringway::bench {
namespace {

std::vector<Tensor> Cut(const Buffers& buffers, std::size_t element_bytes) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < buffers.tensors; ++i) {
    const std::size_t begin = buffers.count * i / buffers.tensors;
    out.push_back({static_cast<const std::byte*>(buffers.input) + begin * element_bytes,
                   static_cast<std::byte*>(buffers.output) + begin * element_bytes,
                   buffers.count * (i + 1) / buffers.tensors - begin});
  }
  return out;
}

}  // namespace

Result<Work> StartCollective(Session& session, OpKind collective, const Reduction& reduction, const Buffers& buffers,
                             OpOptions options) {
  const auto& [dtype, op, codec, feedback] = reduction;
  const auto& [input, count, output, output_count, tensors] = buffers;
  options.codec = codec;
  switch (collective) {
    case OpKind::kAllGather:
      return session.AllGatherAsync(input, count, output, output_count, dtype, options);
    case OpKind::kReduceScatter:
      return session.ReduceScatterAsync(input, output, count, dtype, op, options);
    case OpKind::kBroadcast:
      return session.BroadcastAsync(output, count, dtype, kRoot, options);
    case OpKind::kReduce:
      return session.ReduceAsync(input, output, count, dtype, op, kRoot, options);
    case OpKind::kGather:
      return session.GatherAsync(input, count, output, output_count, dtype, kRoot, options);
    case OpKind::kScatter:
      return session.ScatterAsync(input, output_count, output, count, dtype, kRoot, options);
    case OpKind::kAllToAll:
      return session.AllToAllAsync(input, output, output_count, dtype, options);
    case OpKind::kAllToAllV: {
      const auto counts = ExchangedBy(count, session.world_size(), session.rank());
      return session.AllToAllVAsync(input, PartsOf(counts), output, counts, dtype, options);
    }
    case OpKind::kAllGatherV:
      return session.AllGatherVAsync(input, output, SharesOf(count, session.world_size()), dtype, options);
    case OpKind::kReduceScatterV:
      return session.ReduceScatterVAsync(input, output, SharesOf(count, session.world_size()), dtype, op, options);
    case OpKind::kBarrier:
      return session.BarrierAsync(options);
    case OpKind::kSend:
      return session.RecvAsync(output, count, dtype,
                               (session.rank() + session.world_size() - 1) % session.world_size());
    case OpKind::kAllReduce:
    case OpKind::kUpdateView:
    case OpKind::kRecv:
      break;
  }
  if (tensors > 1) return session.AllReduceManyAsync(Cut(buffers, SizeOf(dtype)), dtype, op, options);
  return session.AllReduceAsync(input, output, count, dtype, op, options);
}

Result<Work> StartSend(Session& session, const Reduction& reduction, const Buffers& buffers) {
  const std::uint32_t next = (session.rank() + 1) % session.world_size();
  return session.SendAsync(buffers.input, buffers.count, reduction.dtype, next);
}

}  // namespace ringway::bench
