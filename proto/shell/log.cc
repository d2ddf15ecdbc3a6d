#include "proto/shell/log.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "proto/word.h"

namespace ringway::shell {
namespace {

bool g_json = false;

spdlog::level::level_enum LevelOf(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

// As a JSON string; in text format unchanged if it is one word.
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

bool IsFreeText(std::string_view key) {
  constexpr std::string_view kKeys[] = {"why", "text", "reason", "for", "members"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

// Keys of names and ids, which are strings even if they consist of digits.
bool IsName(std::string_view key) {
  constexpr std::string_view kKeys[] = {"name", "peer", "other", "other_id", "from"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

// A JSON number: no sign, no leading zero, exact in a double.
bool IsNumber(std::string_view value) {
  const bool digits =
      !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && value.size() <= 15 && (value.size() == 1 || value[0] != '0');
}

// Texts, which may contain words with "=".
bool IsKey(std::string_view key) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !key.empty() && std::all_of(key.begin(), key.end(), is_letter) && key != "time" && key != "level" &&
         key != "event";
}

// Returns the length of the value that Word() quoted at the beginning of `text`; 0 if there is none.
std::size_t QuotedBytes(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return 0;
}

Field ParsedField(std::string_view key, std::string_view value) {
  if (value.starts_with('"') && QuotedBytes(value) == value.size()) {
    const auto read = nlohmann::json::parse(value, nullptr, false);
    if (read.is_string()) return {key, read.get<std::string>()};
  }
  return {key, std::string(value)};
}

// A key that occurs twice, as a name may contain one, counts as a word.
void AddParsed(std::string_view text, std::vector<Field>* fields) {
  const std::size_t given = fields->size();
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    const std::string_view key = word.substr(0, word.find('='));
    if (key.size() + 1 < word.size() && word[key.size() + 1] == '"') {
      const std::size_t quoted = QuotedBytes(text.substr(key.size() + 1));
      if (quoted > 0) word = text.substr(0, key.size() + 1 + quoted);
    }
    const bool is_new =
        key.size() < word.size() && IsKey(key) &&
        std::none_of(fields->begin(), fields->end(), [&](const Field& field) { return field.key == key; });
    const bool to_the_end = (is_new && IsFreeText(key)) || (!is_new && fields->size() == given);
    const std::string_view taken = to_the_end ? text : word;
    if (is_new) {
      fields->push_back(ParsedField(key, taken.substr(key.size() + 1)));
    } else if (to_the_end) {
      fields->emplace_back("text", std::string(taken));
    } else {
      fields->back().value.append(" ").append(taken);
    }
    text.remove_prefix(std::min(text.size(), taken.size() + 1));
  }
  for (std::size_t i = given; i < fields->size(); ++i) {
    Field& field = (*fields)[i];
    field.is_number = !IsName(field.key) && !IsFreeText(field.key) && IsNumber(field.value);
  }
}

// Throws spdlog::spdlog_ex.
spdlog::sink_ptr OpenSink(const LogOptions& options) {
  if (options.file.empty()) return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding RLIMIT_FSIZE is a failed write, not death by signal
  return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes, kLogFilesKept);
}

}  // namespace

Status SetUpLog(const LogOptions& options) {
  const auto& format = options.format;
  const auto& level = options.level;
  if (format != "text" && format != "json") {
    return {Code::kInvalidArgument, "log format '" + format + "' is neither text nor json"};
  }
  if (level != "debug" && level != "info" && level != "warning" && level != "error") {
    return {Code::kInvalidArgument, "log level '" + level + "' is none of debug, info, warning, error"};
  }
  g_json = format == "json";
  // protobuf would log each malformed message; the reader of the message reports those.
  google::protobuf::SetLogHandler(nullptr);
  std::shared_ptr<spdlog::logger> logger;
  try {
    logger = std::make_shared<spdlog::logger>("ringway", OpenSink(options));
  } catch (const spdlog::spdlog_ex& error) {
    return {Code::kInvalidArgument, "--log-file: " + std::string(error.what()) + "; give a file that can be written"};
  }
  logger->set_pattern(g_json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return Status::Ok();
}

bool Shows(Level level) { return spdlog::should_log(LevelOf(level)); }

void Log(Level level, std::string_view event, const std::vector<Field>& fields) {
  if (Shows(level)) Write(level, Line(event, fields));
}

void LogText(Level level, std::string_view event, std::initializer_list<Field> fields, std::string_view more) {
  if (!Shows(level)) return;
  std::vector<Field> all(fields);
  AddParsed(more, &all);
  Write(level, Line(event, all));
}

}  // namespace ringway::shell
