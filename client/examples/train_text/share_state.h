// Brings newcomers the state of training.
//
// Rule, so that the sequences of operations match on all ranks: each rank calls ShareState once directly after Join or
// kRejoined, and members call it directly after an UpdateView that brought new peers. When a group is formed all are
// newcomers; then the lowest peer's state goes to all. It is the initial one, or, where all came back from restarts of
// their daemons at once, as far trained as any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ringway/ringway.hpp>
#include <span>
#include <vector>

namespace train_text {

// Overwrites `parts` on all ranks with those of the lowest peer that is no newcomer (else the lowest peer). The parts
// have the same sizes on all ranks, multiples of 4 bytes, and no operation of the session may be in flight. Blocks;
// treats errors as Must does. 16 MiB of shared memory serve for any size; until all has arrived the state is in memory
// twice and `parts` are as they were, so that a donor that dies leaves no half-taken state. The result is the last
// operation's, with the bytes sent by all of them.
ringway::OpResult ShareState(ringway::Session* session, bool is_newcomer,
                             const std::vector<std::span<std::byte>>& parts);

}  // namespace train_text
