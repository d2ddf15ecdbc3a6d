// What an operation with a root, or with an input for one world, asks of a view.
#pragma once

#include <string>

#include "daemon/agreement/context.h"
#include "daemon/agreement/operation.h"

namespace ringway::agreement {

// Why the view's members cannot do it; empty: they can.
std::string PartnerLost(const Context& ctx, const Submission& submission);

// The root's rank in the view, and what follows from it. REQUIRES: no partner is lost.
void FindRoot(const Context& ctx, Operation& op);

}  // namespace ringway::agreement
