// Which members are dropped when members accuse each other. Pure.
#pragma once

#include <map>
#include <set>

#include "proto/ids.h"

namespace ringway {

using Accusations = std::map<PeerId, std::set<PeerId>>;  // accused -> accusers

struct Dispute {
  std::set<PeerId> members;
  std::set<PeerId> certain;  // gone in any case
  std::set<PeerId> spoken;   // have reported since: alive, although some may not hear them
  Accusations accusations;
};

// Returns the members to drop: `certain`, and then, while an accusation between remaining members is left, one of its
// two sides:
//   1. of those that are accused and have not reported, the one with the most accusers;
//   2. else of all accusers and accused, the one that disagrees with the most others, and of those the most accused: so
//      a peer that hears nobody is dropped alone, although nobody accuses it.
// Ties: the higher peer id.
std::set<PeerId> WhoGoes(const Dispute& dispute);

}  // namespace ringway
