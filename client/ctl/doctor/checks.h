// The checks of `ringwayctl doctor`: each judges facts and returns at least one finding if there is anything to judge.
//
//   config        the programs accept their files   mtu          full-size packets that vanish
//   certificates  files and their dates             sysctl       deploy/sysctl.d
//   clock         against the master's              congestion   bbr
//   versions      releases, protocols               descriptors  open files
//   master        answers; its groups               memory       for regions, against --memory-max
//   daemon        answers; has the master           journal      the disk of the master's
//   ports         dialled from here; links
//
// Pure. What is wrong, how serious it is and the remedy stand in one table (checks.cc). kFail: something does not work,
// or will not when it is needed; kWarn: it is slow or will fail later.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

// Runs all checks, in the order in which one explains the next.
Findings Diagnose(const Facts& facts);

}  // namespace ringway::ctl
