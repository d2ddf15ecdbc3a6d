// Keeps sessions with the process that joined: a forked child must neither use a session nor hold its socket open, or
// the daemon would not see the parent's death; nor its memory, which would outlive the parent's use of it.
//
// A pthread_atfork handler closes every guarded descriptor in the child and increments the generation. Code compares
// the generation before it takes any lock, because a lock may be held by a thread that the child does not have.
//
// Threads: any.
#pragma once

#include <cstdint>

namespace ringway::internal {

// Changes in a forked child, before fork returns there.
std::uint64_t ForkGeneration();

// Returns the descriptor that `open` opens, to be closed in forked children; -1 with errno. Atomic with respect to
// fork.
int OpenGuarded(int (*open)());

// Closes `fd`, atomically with respect to fork. REQUIRES: it is from OpenGuarded; not in a forked child.
void CloseGuardedDescriptor(int fd);

}  // namespace ringway::internal
