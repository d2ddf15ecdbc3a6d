// Status JSON as text for people.
#pragma once

#include <string>

#include "proto/result.h"

namespace ringway::ctl {

// kProtocol if the text is not the JSON of a status.
Result<std::string> Render(const std::string& json_text);

}  // namespace ringway::ctl
