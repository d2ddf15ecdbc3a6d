// A field of a log line: a key, and a value that is a text or a number. Who writes the line quotes it where it must be.
// Values; any thread.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringway {

struct LogField {
  LogField(std::string_view name, std::string text) : key(name), value(std::move(text)) {}
  template <std::integral T>
  LogField(std::string_view name, T number) : key(name), value(std::to_string(number)), is_number(true) {}

  std::string_view key;  // outlives the field: a literal
  std::string value;
  bool is_number = false;
};
using LogFields = std::vector<LogField>;

inline LogFields operator+(LogFields fields, LogFields more) {
  for (LogField& field : more) fields.push_back(std::move(field));
  return fields;
}

}  // namespace ringway
