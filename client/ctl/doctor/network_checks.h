// Checks of what hosts have to agree on, and of the paths between them (checks.h). Pure.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

Findings CheckConfigs(const Facts& facts);
Findings CheckCertificates(const Facts& facts);
Findings CheckMaster(const Facts& facts);
Findings CheckDaemon(const Facts& facts);
Findings CheckVersions(const Facts& facts);
Findings CheckClock(const Facts& facts);
Findings CheckPorts(const Facts& facts);
Findings CheckMtu(const Facts& facts);

}  // namespace ringway::ctl
