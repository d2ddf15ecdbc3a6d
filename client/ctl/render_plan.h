// The explanation of a plan (JSON of master/coordination/plan_report.h) as text for people.
#pragma once

#include <string>

#include "proto/result.h"

namespace ringway::ctl {

// kProtocol if the text is not the JSON of a plan.
Result<std::string> RenderPlan(const std::string& json_text);

}  // namespace ringway::ctl
