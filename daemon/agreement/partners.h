// The members that an operation needs in a view: its root, and those that its input is laid out for; and who gets
// READY.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/agreement/context.h"
#include "daemon/agreement/operation.h"
#include "proto/ids.h"

namespace ringway::agreement {

// Returns why the view's members cannot do it; "" if they can.
std::string PartnerLost(const Context& ctx, const Submission& submission);

// Returns the first member whose input is in an operation without those from peer `from` on (Descriptor::without_from);
// nullopt: no input is left.
std::optional<PeerId> FirstWithInput(const View& view, PeerId from);

// The root's rank in the view, and what follows from it. REQUIRES: no partner is lost.
void FindRoot(const Context& ctx, Operation& op);

// Returns who gets READY from this rank: those that send to it; with a root also those that it sends to, as they may
// take another rank for the root and expect nothing. Every schedule moves data from all ranks, or from the root, to
// all others, or to the root. So where ranks have submitted different descriptors, one of them sends READY to a rank
// that has submitted another. REQUIRES: its attempt is live.
std::set<PeerId> PartnersOf(const Context& ctx, const Operation& op);

}  // namespace ringway::agreement
