#include "client/examples/train_text/share_state.h"

#include <algorithm>
#include <cstring>

#include "client/examples/train_text/must.h"

namespace train_text {

using ringway::DType;
using ringway::ReduceOp;

ringway::OpResult ShareState(ringway::Session* session, bool is_newcomer,
                             const std::vector<std::span<std::byte>>& parts) {
  constexpr std::uint64_t kNewcomer = std::uint64_t{1} << 63;  // above every peer id
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  const ringway::Buffer buffer = Must(session->Allocate(bytes));
  std::uint64_t wire_bytes = 0;
  for (;;) {
    // The smallest claim names the donor to all.
    const std::uint64_t claim = session->peer_id() | (is_newcomer ? kNewcomer : 0);
    std::uint64_t lowest = 0;
    wire_bytes += Must(session->AllReduce(&claim, &lowest, 1, DType::kU64, ReduceOp::kMin)).wire_bytes;
    const std::uint64_t donor = lowest & ~kNewcomer;

    // The donor contributes its bytes, the others zeros: a sum of integers keeps every bit pattern, which one of floats
    // would not (-0.0 becomes 0.0).
    auto* to = buffer.as<std::byte>();
    std::memset(to, 0, bytes);
    if (donor == session->peer_id()) {
      for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
    }
    ringway::OpResult result =
        Must(session->AllReduce(buffer.data(), buffer.data(), bytes / 4, DType::kU32, ReduceOp::kSum));
    wire_bytes += result.wire_bytes;
    const auto& from = result.contributors;
    if (std::find(from.begin(), from.end(), donor) == from.end()) continue;  // it died meanwhile: choose another

    const auto* source = buffer.as<std::byte>();
    for (const auto& part : parts) {
      std::copy_n(source, part.size(), part.begin());
      source += part.size();
    }
    result.wire_bytes = wire_bytes;
    return result;
  }
}

}  // namespace train_text
