// SyncState for bytes that were checked already: compares hashes, exchanges pieces, then confirms that all arrived.
//
// Threads: the session's.
#pragma once

#include <future>
#include <ringway/shared_state.hpp>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"
#include "client/src/state/taker.h"

namespace ringway::internal {

// What was found out before the call.
struct Prepared {
  TakenState* taken =
      nullptr;  // what this rank took; null: nothing. After an error its owner puts back what it replaced
  std::future<Result<std::vector<Hash>>> hashes;  // of the state, where nothing was taken; invalid: none
};

// If this rank alone fails, it leaves the group, since the others are in the middle of the exchange.
Result<StateResult> SyncBytes(Session& session, StateBytes& state, const StateOptions& options, Standing standing,
                              Prepared* prepared);

}  // namespace ringway::internal
