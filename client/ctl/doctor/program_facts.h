// What the statuses of a master and a daemon (JSON of other processes, and other hosts) say. Pure: hostile text gives
// fewer facts, never a failure of ours.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace ringway::ctl {

// Fill in what `json` says; `outcome` becomes kProtocol if it is no status.
void ReadMasterStatus(const std::string& json, MasterFacts* master, std::vector<CertificateFacts>* certificates);
void ReadDaemonStatus(const std::string& json, DaemonFacts* daemon, std::vector<CertificateFacts>* certificates);

}  // namespace ringway::ctl
