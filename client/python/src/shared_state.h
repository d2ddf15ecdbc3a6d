// Shared states: ringway::SharedState and SyncState.
//
// Threads: any; the caller holds the GIL, which every call that may block releases.
#pragma once

#include <nanobind/nanobind.h>

namespace ringway::python {

void DefineSharedState(nanobind::module_& module);

}  // namespace ringway::python
