#include "proto/shell/log.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "proto/printable.h"
#include "proto/shell/places.h"

namespace ringway::shell {
namespace {

bool g_json = false;

spdlog::level::level_enum LevelOf(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

// Returns a JSON string; in the text format, the value as it is if it is a single word.
std::string Escaped(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=") == std::string::npos && IsPrintable(value);
  if (!g_json && plain) return value;
  std::string quoted = nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!g_json) std::replace(quoted.begin(), quoted.end(), '\x7f', '?');  // JSON does not escape it
  return quoted;
}

std::string Line(std::string_view event, std::span<const Field> fields) {
  std::string line = g_json ? "\"event\":\"" : "";
  line.append(event).append(g_json ? "\"" : "");
  for (const Field& field : fields) {
    line.append(g_json ? ",\"" : " ").append(field.key).append(g_json ? "\":" : "=");
    line.append(field.is_number ? field.value : Escaped(field.value));
  }
  return line;
}

void Write(Level level, const std::string& line) {
  spdlog::default_logger_raw()->log(LevelOf(level), spdlog::string_view_t(line));
}

// Throws spdlog::spdlog_ex.
spdlog::sink_ptr OpenSink(const LogOptions& options) {
  if (options.file.empty()) return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a failed write, not the end
  return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes, kLogFilesKept);
}

Status CheckNames(const LogOptions& options) {
  const auto& format = options.format;
  const auto& level = options.level;
  if (format != "text" && format != "json") {
    return {Code::kInvalidArgument, "log format '" + format + "' is neither text nor json"};
  }
  if (level != "debug" && level != "info" && level != "warning" && level != "error") {
    return {Code::kInvalidArgument, "log level '" + level + "' is none of debug, info, warning, error"};
  }
  return Status::Ok();
}

}  // namespace

Status CheckLog(const LogOptions& options) {
  if (Status status = CheckNames(options); !status.ok()) return status;
  if (options.file.empty()) return Status::Ok();
  return CheckFilePlace({.option = "--log-file", .path = options.file, .makes_directories = true});
}

Status SetUpLog(const LogOptions& options) {
  if (Status status = CheckNames(options); !status.ok()) return status;
  g_json = options.format == "json";
  // It would write a line of its own for each hostile message; what cannot be parsed is reported by who reads it.
  google::protobuf::SetLogHandler(nullptr);
  std::shared_ptr<spdlog::logger> logger;
  try {
    logger = std::make_shared<spdlog::logger>("ringway", OpenSink(options));
  } catch (const spdlog::spdlog_ex& error) {
    return {Code::kInvalidArgument, "--log-file: " + std::string(error.what()) + "; give a file that can be written"};
  }
  logger->set_pattern(g_json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(options.level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return Status::Ok();
}

bool Shows(Level level) { return spdlog::should_log(LevelOf(level)); }

void Log(Level level, std::string_view event, const LogFields& fields) {
  if (Shows(level)) Write(level, Line(event, fields));
}

}  // namespace ringway::shell
