// A trainer's request for one operation: what it may ask for, and what depends on the world, such as its root, its
// counts and whether its buffers fit them. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/src/tensor_list.h"
#include "proto/local_abi.h"

namespace ringway::internal {

// Limit for all elements of an operation together.
inline constexpr std::size_t kOperationBytesMax = std::size_t{1} << 46;

inline constexpr std::int64_t kGraceMsMax = 86'400'000;  // a day

inline std::uint32_t GraceMs(Milliseconds grace) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(grace.count(), 0, kGraceMsMax));
}

inline Status Refuse(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

// How many elements of its memory a request uses.
struct Layout {
  std::size_t input_count = 0;
  std::size_t output_count = 0;   // capacity of the output
  std::optional<Part> part = {};  // what of the output is the result, where the kind HasCounts
};

// The kind defines the operation's shape (ringway/types.h). BindToWorld fills in the layout, and what of the spec
// depends on the world.
struct Request {
  abi::OpSpec spec{};
  const void* input = nullptr;
  void* output = nullptr;
  std::uint32_t root = 0;                               // rank of the root, or of a message's other end
  std::optional<std::size_t> input_room = {};           // elements given of an input for all ranks
  std::optional<std::size_t> output_room = {};          // elements given of an output of all ranks' parts
  std::shared_ptr<const TensorList> tensors = nullptr;  // instead of input and output, which are null then
  std::vector<abi::RankCounts> counts = {};             // by rank, of kinds that HasCounts
  Milliseconds submit_timeout = kForever;
  std::uint64_t as_peer = 0;
  void* stream = nullptr;
  Layout layout = {};

  // Copies the input from byte `begin` on.
  void CopyInput(std::size_t begin, std::size_t bytes, std::byte* to) const {
    if (tensors != nullptr) return tensors->Gather(begin, bytes, to);
    std::memcpy(to, static_cast<const std::byte*>(input) + begin, bytes);
  }
  std::size_t input_bytes() const { return layout.input_count * SizeOf(spec.dtype); }
  std::size_t output_bytes() const { return layout.output_count * SizeOf(spec.dtype); }
};

struct World {
  std::uint64_t self = 0;                  // this peer's id
  std::span<const std::uint64_t> members;  // peer ids in rank order
};

// Gives the request what the group was joined with, unless it names a quorum of its own. Before CheckRequest.
void BindToGroup(const JoinOptions& group, Request* request);

// Checks that need no world: kInvalidArgument or kNotSupported.
Status CheckRequest(const Request& request);

// Makes a sum or an average one without the inputs of peers from `from` on. kNotSupported if this peer `is_left_out` of
// one with a quorum or weights, which its input might be in.
Status LeaveOut(std::uint64_t from, bool is_left_out, Request* request);

// REQUIRES: CheckRequest(*request) is ok, and the world has at least one member.
Status BindToWorld(const World& world, Request* request);

}  // namespace ringway::internal
