#include "client/ctl/doctor/checks.h"

#include <utility>

#include "client/ctl/doctor/host_checks.h"
#include "client/ctl/doctor/network_checks.h"

namespace ringway::ctl {
namespace {

struct Check {
  const char* name;
  Findings (*judge)(const Facts& facts);
};

constexpr Check kChecks[] = {
    {"config", CheckConfigs},
    {"certificates", CheckCertificates},
    {"master", CheckMaster},
    {"daemon", CheckDaemon},
    {"versions", CheckVersions},
    {"clock", CheckClock},
    {"ports", CheckPorts},
    {"mtu", CheckMtu},
    {"sysctl", CheckSysctls},
    {"congestion", CheckCongestionControl},
    {"descriptors", CheckDescriptors},
    {"memory", CheckMemory},
    {"journal", CheckJournal},
};

}  // namespace

Findings Diagnose(const Facts& facts) {
  Findings all;
  for (const Check& check : kChecks) {
    for (Finding& finding : check.judge(facts)) {
      finding.check = check.name;
      all.push_back(std::move(finding));
    }
  }
  return all;
}

}  // namespace ringway::ctl
