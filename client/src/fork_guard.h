// Keeps sessions with the process that joined: a forked child must neither use a session nor hold its socket open, or
// the daemon would not see the parent's death; nor its memory, which would outlive the parent's use of it.
//
// A pthread_atfork handler closes every guarded descriptor in the child and moves the generation on. Code compares the
// generation before it takes any lock, because a lock may be held by a thread that the child does not have.
//
// Any thread.
#pragma once

#include <cstdint>

namespace ringway::internal {

// Changes in a forked child, before fork returns there.
std::uint64_t ForkGeneration();

// What `open` opens, to be closed in a forked child; -1 and errno where it fails. One step for forks.
int OpenGuarded(int (*open)());

// Closes `fd` and forgets it, in one step for forks. REQUIRES: of OpenGuarded, not in a forked child.
void CloseGuardedDescriptor(int fd);

}  // namespace ringway::internal
