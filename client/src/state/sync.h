// SyncState of bytes that were looked at already: who has what, by hash; then the pieces; then that all have all.
//
// Threads: the session's.
#pragma once

#include <ringway/shared_state.hpp>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"

namespace ringway::internal {

// A failure of this rank alone leaves the group, as the others are in the middle of it.
Expected<StateResult> SyncBytes(Session& session, StateBytes& state, const StateOptions& options, Standing standing);

}  // namespace ringway::internal
