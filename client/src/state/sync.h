// SyncState for bytes that were checked already: compares hashes, exchanges pieces, then confirms that all arrived.
//
// Threads: the session's.
#pragma once

#include <ringway/shared_state.hpp>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"
#include "client/src/state/taker.h"

namespace ringway::internal {

// If this rank alone fails, it leaves the group, since the others are in the middle of the exchange.
// `taken`: what this rank took before; null: nothing. After an error its owner puts back what it replaced.
Result<StateResult> SyncBytes(Session& session, StateBytes& state, const StateOptions& options, Standing standing,
                              TakenState* taken = nullptr);

}  // namespace ringway::internal
