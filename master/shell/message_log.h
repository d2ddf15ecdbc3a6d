// Log lines about messages between the master and its daemons; ids are accompanied by names and addresses.
//
//   info, warning   views, reports of recoveries, peers that come, leave and are dropped
//   debug           joins and their refusals, pairs that are connected, measured or unreachable, heartbeats, why peers
//                   wait, what dropped peers are sent
//
// Threads: the server's.
#pragma once

#include "master/coordination/coordinator.h"

namespace ringway {

// REQUIRES: the connection is a daemon's; called before the coordinator handles the message.
void LogFromDaemon(Coordinator::Connection from, const control::ToMaster& message, const Coordinator& coordinator);
// REQUIRES: the action has a message.
void LogToDaemon(const Coordinator::Action& action, const Coordinator& coordinator);

// One line for a peer that was dropped or has left, whether its daemon is connected or not.
void LogDropped(const FormerPeer& former);

// One line for each host that has been found to make a group slow, or to do so no more, in events after `*last`, which
// becomes the newest one's number.
void LogSlowHosts(const Timeline& timeline, std::uint64_t* last);

}  // namespace ringway
