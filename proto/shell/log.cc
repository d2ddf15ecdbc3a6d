#include "proto/shell/log.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace ringway::shell {
namespace {

bool g_json = false;

spdlog::level::level_enum LevelOf(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

// A JSON string's inside or, for text, a value that stays one word.
std::string Escaped(const std::string& value) {
  std::string quoted = nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (g_json) return quoted;
  const bool plain = !value.empty() && value.find_first_of(" \"\n\t=") == std::string::npos;
  return plain ? value : quoted;
}

// How every line begins.
std::string EventPart(std::string_view event) {
  std::string part = g_json ? "\"event\":\"" : "";
  return part.append(event).append(g_json ? "\"" : "");
}

}  // namespace

Status SetUpLog(const std::string& format, const std::string& level) {
  if (format != "text" && format != "json") {
    return {Code::kInvalidArgument, "log format '" + format + "' is neither text nor json"};
  }
  if (level != "debug" && level != "info" && level != "warning" && level != "error") {
    return {Code::kInvalidArgument, "log level '" + level + "' is none of debug, info, warning, error"};
  }
  g_json = format == "json";
  // It would write a line of its own for each hostile message; what cannot be parsed is reported by who reads it.
  google::protobuf::SetLogHandler(nullptr);
  auto logger = spdlog::stderr_logger_mt("ringway");
  logger->set_pattern(g_json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return Status::Ok();
}

void Log(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (!spdlog::should_log(LevelOf(level))) return;
  std::string line = EventPart(event);
  for (const auto& [key, value] : fields) {
    line.append(g_json ? ",\"" : " ").append(key).append(g_json ? "\":" : "=").append(Escaped(value));
  }
  spdlog::default_logger_raw()->log(LevelOf(level), spdlog::string_view_t(line));
}

void LogText(Level level, std::string_view event, std::string_view fields) {
  if (!spdlog::should_log(LevelOf(level))) return;
  std::string line = EventPart(event);
  if (g_json)
    line.append(",\"fields\":").append(Escaped(std::string(fields)));
  else
    line.append(" ").append(fields);
  spdlog::default_logger_raw()->log(LevelOf(level), spdlog::string_view_t(line));
}

}  // namespace ringway::shell
