// SyncState for bytes that were checked already: compares hashes, exchanges pieces, then confirms that all arrived.
//
// Threads: the session's.
#pragma once

#include <functional>
#include <future>
#include <ringway/shared_state.hpp>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"
#include "client/src/state/taker.h"

namespace ringway::internal {

// What was found out before the call, and what is to be done during it.
struct Prepared {
  // What this rank took; null: nothing. After an error its owner puts back what it replaced.
  TakenState* taken = nullptr;
  std::future<Result<std::vector<Hash>>> hashes = {};  // of the state, where nothing was taken; invalid: none
  std::function<void()> make_room = {};                // before the exchange allocates shared memory
  std::function<bool()> can_replay = {};               // asked when the hashes are there; empty: it cannot
  // Set by the call: the first of the peers that replay (ReplayFrom), which have nothing of the state yet; 0: none do,
  // and all have it. And the hash of the state that was chosen.
  std::uint64_t replay_from = 0;
  Hash chosen = {};
};

// If this rank alone fails, it leaves the group, since the others are in the middle of the exchange.
Result<StateResult> SyncBytes(Session& session, StateBytes& state, const StateOptions& options, Standing standing,
                              Prepared* prepared);

}  // namespace ringway::internal
