// Which trainers hang, from the reports of all members after one of them has waited for as long as the group allows.
// Pure.
//
//   A waits for 0:7     B has not submitted it, for it waits for 1:3     C has submitted neither, and waits for nothing
//
// C hangs: B would continue if C did. Trainers that wait for each other in a cycle have submitted in different orders;
// then those hang that lack the operation which most others have submitted. A trainer whose send or recv has no other
// end yet waits for that rank likewise; in a cycle of such alone, the one that most wait for hangs.
#pragma once

#include <map>
#include <set>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// Returns nobody if it would be more than half of the members: then the others may have run ahead. `reports`: of all
// members that stay, by peer.
std::set<PeerId> WhoHangs(const std::map<PeerId, control::Report>& reports);

}  // namespace ringway
