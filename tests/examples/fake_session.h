// The client library's Session for tests of the example: ranks are threads, operations meet in memory.
//
// Only what the example's state sharing uses: Join, Allocate, AllReduce, peer_id. Peer ids count from 1 in the order of
// Join. A dead peer takes part in nothing any more; the others go on without it.
#pragma once

#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>

namespace train_text {

// Forgets all peers. REQUIRES: no Session exists.
void ResetFakeGroup();

// The calling thread's session; the group has `world` peers from when all have joined.
std::unique_ptr<ringway::Session> JoinFakeGroup(std::uint32_t world);

// From its `operations`-th operation on (from 1) the peer is dead: it gets kDaemonLost, the others go on.
void KillFakePeerAt(std::uint64_t peer_id, std::uint32_t operations);

}  // namespace train_text
