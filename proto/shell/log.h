// Logging of the programs, to stderr or a rotated file: an event name and fixed fields, at state changes only.
//
//   text  2026-01-31T12:00:00.123Z info  view_installed group=job epoch=1.4
//   json  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"view_installed","group":"job","epoch":"1.4",
//          "world":4}   (numbers are numbers; ids and names are strings)
//
// In text, a value that is not one word is written as a JSON string.
//
// Threads: any, after SetUpLog.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/result.h"

namespace ringway::shell {

enum class Level : int { kDebug, kInfo, kWarning, kError };

struct Field {
  Field(std::string_view name, std::string text) : key(name), value(std::move(text)) {}
  template <std::integral T>
  Field(std::string_view name, T number) : key(name), value(std::to_string(number)), is_number(true) {}

  std::string_view key;
  std::string value;
  bool is_number = false;
};

struct LogOptions {
  std::string format = "text";  // or json
  std::string level = "info";   // or debug, warning, error
  std::string file;             // "": stderr
  // Size at which the file is rotated: "x.log" is renamed to "x.1.log"; kLogFilesKept such are kept.
  std::uint64_t file_bytes = 64 << 20;
};
inline constexpr std::size_t kLogFilesKept = 3;

// Also silences protobuf, which writes to stderr by itself. kInvalidArgument, with advice, for unknown values and for a
// file that cannot be written. If writing fails later, lines are lost, with a note on stderr. Call once, before
// threads.
Status SetUpLog(const LogOptions& options);

void Log(Level level, std::string_view event, const std::vector<Field>& fields = {});
// Appends `more`, the "key=value key=value" notes of the pure parts. A decimal value is a number, unless the key is a
// name or an id (name, peer, other, other_id, from). Values of why, text, reason, for and members extend to the end;
// elsewhere a word without "=" belongs to the value before it.
void LogText(Level level, std::string_view event, std::initializer_list<Field> fields, std::string_view more);
// Returns whether lines of this level are written.
bool Shows(Level level);

}  // namespace ringway::shell
