// Checks of this host's kernel, limits, memory and disk (checks.h). Pure.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

Findings CheckSysctls(const Facts& facts);
Findings CheckCongestionControl(const Facts& facts);
Findings CheckDescriptors(const Facts& facts);
Findings CheckMemory(const Facts& facts);
Findings CheckJournal(const Facts& facts);

}  // namespace ringway::ctl
