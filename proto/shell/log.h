// Logging of the programs, on stderr: an event name and fixed fields, at state changes only.
//
//   text  2026-01-31T12:00:00.123Z info  view_installed group=job epoch=1.4
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"view_installed","group":"job","epoch":"1.4"}
//
// Threads: any, after SetUpLog.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "proto/result.h"

namespace ringway::shell {

enum class Level : int { kDebug, kInfo, kWarning, kError };
using Field = std::pair<std::string_view, std::string>;

// Also silences protobuf, which writes to stderr by itself. `format`: text or json; `level`: debug, info, warning or
// error. kInvalidArgument otherwise. Call once, before threads.
Status SetUpLog(const std::string& format, const std::string& level);

void Log(Level level, std::string_view event, std::initializer_list<Field> fields = {});
// `fields` as "key=value key=value", as the pure parts give them; appended as they are.
void LogText(Level level, std::string_view event, std::string_view fields);

}  // namespace ringway::shell
