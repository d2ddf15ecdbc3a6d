// Checks that the names of daemons and trainers can be stored, printed and sent to others. Pure. Errors:
// kInvalidArgument with what is allowed.
#pragma once

#include "proto/control.pb.h"
#include "proto/result.h"

namespace ringway {

// Name, site and address.
Status CheckHello(const control::DaemonHello& hello);
// Group and peer.
Status CheckNames(const control::JoinRequest& request);

}  // namespace ringway
