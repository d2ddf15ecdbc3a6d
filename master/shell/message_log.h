// What the master's log says of the messages between it and its daemons: names and addresses stand beside ids.
//
//   info, warning   views, reports of recoveries, peers that come, leave and are dropped
//   debug           joins and their refusals, pairs that are connected, measured or unreachable, heartbeats, why peers
//                   wait, what dropped peers are told
//
// Threads: the server's.
#pragma once

#include "master/coordination/coordinator.h"

namespace ringway {

// Before the coordinator takes it. REQUIRES: the connection is a daemon's.
void LogFromDaemon(Coordinator::Connection from, const control::ToMaster& message, const Coordinator& coordinator);
// REQUIRES: the action has a message.
void LogToDaemon(const Coordinator::Action& action, const Coordinator& coordinator);

// A peer that was dropped or has left, whether its daemon is connected or not: one line.
void LogDropped(const FormerPeer& former);

}  // namespace ringway
