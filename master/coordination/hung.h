// Whose trainers hang, by what all members report when one of them has waited for as long as the group allows. Pure.
//
//   A waits for 0:7     B has not submitted it, as it waits for 1:3 first     C has submitted neither, and waits for
//   nothing
//
// C goes: B would go on if C did. Trainers that wait for each other in a circle have submitted in different orders;
// then those go that the operation lacks which most others have submitted.
#pragma once

#include <map>
#include <set>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// Nobody where it would be more than half of the members: then it may be the others that went ahead. `reports`: of all
// that stay, by peer.
std::set<PeerId> WhoHangs(const std::map<PeerId, control::Report>& reports);

}  // namespace ringway
