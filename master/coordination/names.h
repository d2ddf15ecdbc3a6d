// Checks that the names of daemons and trainers can be stored, printed and sent to others. Pure. Errors:
// kInvalidArgument with what is allowed.
#pragma once

#include <string>

#include "proto/control.pb.h"
#include "proto/result.h"

namespace ringway {

inline constexpr std::size_t kNameBytesMax = 255;  // of a daemon's name, site or address

// Name, site and address.
Status CheckHello(const control::DaemonHello& hello);
// Group and peer.
Status CheckNames(const control::JoinRequest& request);

// A peer's name; "peer N" of one without.
std::string NameOfPeer(const control::PeerInfo& info);

}  // namespace ringway
