// The checks of `ringwayctl doctor`: each judges facts, and has one finding at least if there is anything to judge.
//
//   certificates  files and their dates             mtu          full-size packets that vanish
//   clock         against the master's              sysctl       deploy/sysctl.d
//   versions      releases, protocols               congestion   bbr
//   master        answers; its groups               descriptors  open files
//   daemon        answers; has the master           memory       for regions, against --memory-max
//   ports         dialled from here; links          journal      the disk of the master's
//
// Pure. A finding is kFail if something does not work, or will not when it is needed; kWarn if it is slow or will fail
// later.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

// All checks, in the order of the table.
Findings Diagnose(const Facts& facts);

}  // namespace ringway::ctl
