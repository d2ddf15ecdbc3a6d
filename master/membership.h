// Who goes when members accuse each other. Pure.
#pragma once

#include <map>
#include <set>

#include "proto/ids.h"

namespace ringway {

using Accusations = std::map<PeerId, std::set<PeerId>>;  // accused -> accusers

// The members of `members` to drop: `certain` first, then, while an accusation between remaining members is left, the
// one with the most remaining accusers; of equals the higher peer id. An accusation condemns one of its two sides: when
// nobody else speaks, it may be the accuser.
std::set<PeerId> WhoGoes(const std::set<PeerId>& members, const std::set<PeerId>& certain,
                         const Accusations& accusations);

}  // namespace ringway
