// Who goes when members accuse each other. Pure.
#pragma once

#include <map>
#include <set>

#include "proto/ids.h"

namespace ringway {

using Accusations = std::map<PeerId, std::set<PeerId>>;  // accused -> accusers

struct Dispute {
  std::set<PeerId> members;
  std::set<PeerId> certain;  // who is gone for sure
  std::set<PeerId> spoken;   // who has answered since: it lives, though somebody may not hear it
  Accusations accusations;
};

// The members to drop: `certain` first. Then, while an accusation between remaining members is left, one more, because
// an accusation condemns one of its two sides:
//   - of those who are accused and have not spoken, the one with the most accusers;
//   - else of all that accuse or are accused, the one in discord with the most others, and of those the most accused.
//     So a peer that hears nobody goes alone, although nobody accuses it.
// Of equals the higher peer id.
std::set<PeerId> WhoGoes(const Dispute& dispute);

}  // namespace ringway
