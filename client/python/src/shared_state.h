// Shared states: ringway::SharedState and SyncState.
//
// Threads: any; the caller holds the GIL, which every call that may block releases.
#pragma once

#include <nanobind/nanobind.h>

#include <ringway/shared_state.hpp>

namespace ringway::python {

void DefineSharedState(nanobind::module_& module);

// The state in an object of the package. It stays the object's.
SharedState& SharedStateOf(nanobind::handle state);

}  // namespace ringway::python
