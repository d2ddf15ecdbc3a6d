// The values that cross the seam between a session and its peer: an operation that the trainer submits, and its
// outcome.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/buffers/op_buffers.h"
#include "proto/clock.h"
#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/local_abi.h"
#include "proto/segment_header.h"

namespace ringway::buffers {

// `buffers` are used by this operation alone, and as large as the collective needs them (OpKind); an output of all
// ranks' parts up to the world size that it has room for.
struct Submission {
  std::uint64_t token = 0;  // the session's own name for it; comes back in Complete
  abi::OpSpec spec{};       // checked
  // The part of the spec that the ranks must agree on. Its schedule and root are set when the operation starts; an
  // all_to_all_v has one for each pair (collective::DescriptorWith).
  Descriptor descriptor;
  std::shared_ptr<const collective::Layout> layout;  // what each member has of the input (HasCounts); else null
  std::shared_ptr<OpBuffers> buffers;                // never null
  Duration time_limit{};  // from now; then all ranks are asked to fail it with kDeadline. 0: none

  ChannelId channel() const { return ChannelId(spec.channel); }
  PeerId root() const { return PeerId(spec.root); }
};

// How an operation ended: `outcome`, `text` and `contributors` fill its slot, the rest is for logs and statistics.
struct Complete {
  std::uint64_t token = 0;
  abi::Outcome outcome{};
  std::string text;
  std::vector<PeerId> contributors;  // in rank order of the outcome's epoch; at most kWorldSizeMax are reported
  ChannelId channel;
  OpKind collective = OpKind::kAllReduce;
  PeerId other;             // of a message: its other end
  std::uint32_t tag = 0;    // likewise
  std::uint64_t bytes = 0;  // of its buffer (Shape::count); 0 for an UpdateView
  Encoding codec = Codec::kNone;
  TimePoint submitted{};

  bool ok() const { return outcome.code == Code::kOk; }
  OpName op() const { return {channel, outcome.sequence}; }
  Epoch epoch() const { return Epoch(outcome.epoch); }
};

}  // namespace ringway::buffers
