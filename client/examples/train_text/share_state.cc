#include "client/examples/train_text/share_state.h"

#include <algorithm>
#include <cstring>

#include "client/examples/train_text/must.h"

namespace train_text {

using ringway::Buffer;
using ringway::DType;
using ringway::OpResult;
using ringway::ReduceOp;

namespace {

// Shared memory at a time, however large the state: enough to fill a long path, small compared with a model.
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

std::size_t SizeOf(const std::vector<std::span<std::byte>>& parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

// Broadcasts the donor's state, chunk by chunk. Returns false, on all ranks at the same chunk, if the donor died
// meanwhile.
bool Spread(ringway::Session* session, const Buffer& place, std::uint64_t donor, std::vector<std::byte>* state,
            OpResult* last) {
  auto* chunk = place.as<std::byte>();
  for (std::size_t at = 0; at < state->size(); at += kChunkBytes) {
    const std::size_t bytes = std::min(kChunkBytes, state->size() - at);
    // The donor contributes its bytes, the others zeros: a sum of integers keeps every bit pattern, a sum of floats
    // does not (-0.0 becomes 0.0).
    if (donor == session->peer_id()) {
      std::memcpy(chunk, state->data() + at, bytes);
    } else {
      std::memset(chunk, 0, bytes);
    }
    const std::uint64_t before = last->wire_bytes;
    *last = Must(session->AllReduce(chunk, chunk, bytes / 4, DType::kU32, ReduceOp::kSum));
    last->wire_bytes += before;
    const auto& from = last->contributors;
    if (std::find(from.begin(), from.end(), donor) == from.end()) return false;
    std::memcpy(state->data() + at, chunk, bytes);
  }
  return true;
}

}  // namespace

OpResult ShareState(ringway::Session* session, bool is_newcomer, const std::vector<std::span<std::byte>>& parts) {
  constexpr std::uint64_t kNewcomer = std::uint64_t{1} << 63;  // above every peer id
  // `parts` change only when all has arrived: if the donor dies, the next donor still has a consistent state.
  std::vector<std::byte> state(SizeOf(parts));
  const Buffer place = Must(session->Allocate(std::min(state.size(), kChunkBytes)));
  OpResult last;
  for (;;) {
    // The smallest claim identifies the donor to all.
    const std::uint64_t claim = session->peer_id() | (is_newcomer ? kNewcomer : 0);
    std::uint64_t lowest = 0;
    last.wire_bytes += Must(session->AllReduce(&claim, &lowest, 1, DType::kU64, ReduceOp::kMin)).wire_bytes;
    const std::uint64_t donor = lowest & ~kNewcomer;
    if (donor == session->peer_id()) {
      auto to = state.begin();
      for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
    }
    if (!Spread(session, place, donor, &state, &last)) continue;  // choose another

    const std::byte* from = state.data();
    for (const auto& part : parts) {
      std::copy_n(from, part.size(), part.begin());
      from += part.size();
    }
    return last;
  }
}

}  // namespace train_text
