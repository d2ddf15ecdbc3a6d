// The files of the page that `ringway-master --http` serves: in the program, so that they work without a network and
// always fit its JSON (master/coordination/status.h).
#pragma once

#include "proto/shell/http.h"

namespace ringway::page {

const shell::HttpPages& Pages();

}  // namespace ringway::page
