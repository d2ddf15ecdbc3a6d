// What `ringwayctl doctor` found, and how it says so: a line a finding, with its remedy below it. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringway::ctl {

enum class Level : std::uint8_t {
  kOk,
  kSkip,  // cannot be checked from here; `what` says why
  kWarn,  // will hurt
  kFail,  // does not work, or will not
};

struct Finding {
  Level level = Level::kOk;
  std::string what;
  std::string remedy = {};  // of kWarn and kFail; a command where there is one
  std::string check = {};   // filled in by Diagnose
};
using Findings = std::vector<Finding>;

bool AnyFails(const Findings& findings);

// Words of other hosts are among them: control characters are replaced.
std::string RenderFindings(const Findings& findings);
// {"serious", "warnings", "findings": [{"check", "level": "ok" | "skip" | "warn" | "fail", "what", "remedy"}]}
std::string FindingsJson(const Findings& findings);

}  // namespace ringway::ctl
