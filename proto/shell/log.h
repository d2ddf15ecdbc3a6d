// Logging of the programs, to stderr or a rotated file: an event name and fixed fields, at state changes only.
//
//   text  2026-01-31T12:00:00.123Z info  view_installed group=job epoch=1.4
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"view_installed","group":"job","epoch":"1.4",
//          "world":4}   (numbers are numbers; ids and names are strings)
//
// The text format writes a value that is not one word as a JSON string.
//
// Threads: any, after SetUpLog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/log_field.h"
#include "proto/result.h"

namespace ringway::shell {

enum class Level : int { kDebug, kInfo, kWarning, kError };

using Field = LogField;

struct LogOptions {
  std::string format = "text";  // or json
  std::string level = "info";   // or debug, warning, error
  std::string file;             // "": stderr
  // Size at which the file is rotated: "x.log" is renamed to "x.1.log"; kLogFilesKept such are kept.
  std::uint64_t file_bytes = 64 << 20;
};
inline constexpr std::size_t kLogFilesKept = 3;

// Sets up the log, and silences protobuf, which writes to stderr by itself. Returns kInvalidArgument, with advice, for
// unknown values and for a file that cannot be written. If writing fails later, lines are lost, with a note on stderr.
// Call once, before threads.
Status SetUpLog(const LogOptions& options);
// Returns what SetUpLog would return, and changes nothing.
Status CheckLog(const LogOptions& options);

void Log(Level level, std::string_view event, const LogFields& fields = {});
// Returns whether lines of this level are written.
bool Shows(Level level);

}  // namespace ringway::shell
