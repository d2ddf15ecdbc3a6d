// Transfers the training state to newcomers.
//
// Rule, so that the sequences of operations match on all ranks: each rank calls ShareState once directly after Join or
// kRejoined, and members call it directly after an UpdateView that admitted new peers. In a new group all are
// newcomers, and all take the lowest peer's state: the initial one, or, if all daemons were restarted at once, one as
// far trained as any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ringway/ringway.hpp>
#include <span>
#include <vector>

namespace train_text {

// Overwrites `parts` on all ranks with those of the lowest peer that is no newcomer (else the lowest peer). The parts
// have the same sizes on all ranks, multiples of 4 bytes, and no operation of the session may be in flight. Blocks;
// treats errors as Must does. Uses 16 MiB of shared memory for any size; until all has arrived, the state is in memory
// twice and `parts` are unchanged, so that a donor that dies leaves no partial state. Returns the last operation's
// result, with the bytes sent by all of them.
ringway::OpResult ShareState(ringway::Session* session, bool is_newcomer,
                             const std::vector<std::span<std::byte>>& parts);

}  // namespace train_text
