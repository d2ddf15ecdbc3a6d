// What a trainer submits: one operation, and its buffers. The session makes it, the peer runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/buffers/op_buffers.h"
#include "proto/clock.h"
#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::buffers {

// `buffers` are used by this operation alone, and as large as the collective needs them (OpKind); an output of all
// ranks' parts up to the world size that it has room for.
struct Submission {
  std::uint64_t token = 0;  // the session's own name for it; comes back in Complete
  ChannelId channel;
  Descriptor descriptor;         // its schedule and root are set when the operation starts; of an all_to_all_v
                                 // not yet that of a pair (collective::DescriptorWith)
  PeerId root;                   // where the kind has one; of a message the other end
  std::uint32_t tag = 0;         // of a message
  std::uint64_t members = 0;     // abi::MembersHash of those that an input for one world is laid out for ..
  std::uint32_t world_size = 0;  // .. and how many they are (IsForOneWorld)
  std::shared_ptr<const collective::Layout> layout;  // .. and what each has of it (HasCounts); else null
  std::optional<Algorithm> algorithm;                // nothing: the plan's choice
  std::shared_ptr<OpBuffers> buffers;                // never null
  std::uint64_t feedback = 0;                        // names the tensor whose residual is added (feedback.h); 0: none
  std::uint32_t priority = 0;                        // whose segments this rank sends first: the highest
  Duration time_limit{};  // from now; then all ranks are asked to fail it with kDeadline. 0: none
};

}  // namespace ringway::buffers
