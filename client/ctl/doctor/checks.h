// The checks of `ringwayctl doctor`: each judges facts and returns at least one finding if there is anything to judge.
//
//   config        the programs accept their files   mtu          full-size packets that vanish
//   certificates  files and their dates             sysctl       deploy/sysctl.d
//   clock         against the master's              congestion   bbr
//   versions      releases, protocols               descriptors  open files
//   master        answers; its groups               memory       for regions, against --memory-max
//   daemon        answers; has the master           journal      as the master says
//   ports         dialled from here; links
//
// Pure, but for HostFacts::read. What is wrong, how serious it is and the remedy stand in one table (rows.h). kFail:
// something does not work, or will not when it is needed; kWarn: it is slow or will fail later.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

// Runs all checks, in the order in which one explains the next.
Findings Diagnose(const Facts& facts);

// Fills in what a program answered, and adds the certificate that it says it uses. `outcome` becomes kProtocol if that
// is no status of its kind ("master", "daemon").
void ReadStatus(const std::string& text, const std::string& kind, ProgramFacts* program,
                std::vector<CertificateFacts>* certificates);

}  // namespace ringway::ctl
