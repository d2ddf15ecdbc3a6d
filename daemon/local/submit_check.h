// Checks a Submit packet. Every field is hostile; nothing of it is used before it passed here.
//
//   accept  the operation may be handed to the peer
//   refuse  valid but impossible (an average of integers): the slot is completed with the code
//   lie     no correct client sends this: the session ends
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/local_abi.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::local {

enum class Verdict : std::uint8_t { kAccept, kRefuse, kProtocolError };

struct SubmitVerdict {
  Verdict verdict = Verdict::kAccept;
  Status status = {};                                          // why, unless accepted
  abi::OpSpec spec = {};                                       // what was accepted
  Descriptor descriptor = {};                                  // the part of it that all ranks must agree on
  std::shared_ptr<const collective::Layout> layout = nullptr;  // of kinds that HasCounts
  std::uint64_t input_bytes = 0;
  std::uint64_t result_bytes = 0;
};

// `counts`: what follows the packet. `self`: the trainer's peer. `region_bytes`: returns the size of a registered
// region, or nothing. The caller checks whether the slot is in use. Pure; any thread.
using RegionBytes = std::function<std::optional<std::uint64_t>(std::uint32_t region_id)>;
SubmitVerdict CheckSubmit(const abi::Submit& submit, std::span<const abi::RankCounts> counts, PeerId self,
                          const RegionBytes& region_bytes);

}  // namespace ringway::local
