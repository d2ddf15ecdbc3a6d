// Which members are dropped when members accuse each other. Pure.
//
// An accusation is final: its two sides never share a view again. A suspicion is not: the link is down, or the other is
// silent, but not for the detection time yet. A suspicion drops nobody; it shows who is at fault where an accusation
// has to be settled anyway.
#pragma once

#include <cstdint>
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
  Accusations suspicions{};  // suspected -> by whom
};

// Returns the members to drop: `certain`, and then, until no accusation between remaining members is left,
//   1. those that are accused and have not reported, one after the other, the one with the most accusers first;
//   2. all outside the largest set of the others without an accusation among them. Among several such sets it is the
//      one that leaves out the least trusted member, then the next. The least trusted is at odds (accusation or
//      suspicion, either way) with the most others, and if tied, accused or suspected by the most: so a peer that hears
//      nobody is dropped alone, although nobody accuses it.
// Ties: the higher peer id. Daemons that lie can accuse so that the largest set takes too long to find: then it is the
// largest one found in kCliqueStepsMax branches (clique.h), of all searches together.
std::set<PeerId> WhoGoes(const Dispute& dispute);
// The same, with what is left of those for the decision that this belongs to.
std::set<PeerId> WhoGoes(const Dispute& dispute, std::uint64_t& steps_left);

// Returns whether WhoGoes needs no further word of the remaining members: each accusation is with a member that is at
// odds with all others, and two or more are not; or all have accused all.
bool IsSettled(const Dispute& dispute);

}  // namespace ringway
