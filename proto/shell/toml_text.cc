#include "proto/shell/toml_text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "proto/printable.h"

// Some malformed files ("[#a") violate an assertion of toml++ 3.3, with NDEBUG an assumption: reject them first.
#undef NDEBUG
#define TOML_ASSERT(condition) ringway::shell::ExpectOfToml(static_cast<bool>(condition))
namespace ringway::shell {
constexpr void ExpectOfToml(bool holds) {
  if (!holds) throw std::logic_error("toml++");
}
}  // namespace ringway::shell
#include <toml++/toml.h>

namespace ringway::shell {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// toml++ 3.3 has undefined behaviour for some non-ASCII letters: each of their bytes is escaped as a mark that does not
// occur in the file, and two hexadecimal digits.
class Spelling {
 public:
  explicit Spelling(const std::string& text) {
    while (text.find(mark_) != std::string::npos) mark_ += 'q';
  }

  std::string Spell(const std::string& text) const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      out += IsAscii(c) ? std::string(1, c) : mark_ + kDigits[byte >> 4] + kDigits[byte & 15];
    }
    return out;
  }

  std::string Read(std::string text) const {
    for (std::size_t at = text.find(mark_); at != std::string::npos; at = text.find(mark_, at + 1)) {
      const std::string_view digits = std::string_view(text).substr(at + mark_.size(), 2);
      unsigned byte = 0;
      // Without such digits the mark came from an escape sequence in the file.
      if (digits.size() < 2 || std::from_chars(digits.begin(), digits.end(), byte, 16).ptr != digits.end()) continue;
      if (IsAscii(static_cast<char>(byte))) continue;
      text.replace(at, mark_.size() + 2, 1, static_cast<char>(byte));
    }
    return text;
  }

 private:
  std::string mark_ = "zq";
};

Status Refused(const std::string& what) { return {Code::kInvalidArgument, what}; }

std::string AtLine(const std::string& what, std::size_t line) { return what + ", line " + std::to_string(line) + ": "; }

Status CheckCharacters(const std::string& text, const std::string& what) {
  if (!IsUtf8(text)) return Refused(what + ": this is no UTF-8 text");
  const auto odd = std::find_if(text.begin(), text.end(), [](char c) {
    return !IsPrintable({&c, 1}) && c != '\t' && c != '\n' && c != '\r';
  });
  if (odd == text.end()) return Status::Ok();
  const auto line = static_cast<std::size_t>(1 + std::count(text.begin(), odd, '\n'));
  return Refused(AtLine(what, line) + "a control character");
}

TomlValue ValueOf(std::optional<std::string> table, std::string key, const toml::node& node, const Spelling& spelling) {
  TomlValue out{
      .table = std::move(table), .key = std::move(key), .value = TomlOther(), .line = node.source().begin.line};
  if (const auto text = node.value_exact<std::string>()) {
    out.value = spelling.Read(*text);
  } else if (const auto number = node.value_exact<std::int64_t>()) {
    out.value = *number;
    out.is_octal = (node.as_integer()->flags() & toml::value_flags::format_as_octal) != toml::value_flags::none;
  } else if (const auto real = node.value_exact<double>()) {
    out.value = *real;
  } else if (const auto flag = node.value_exact<bool>()) {
    out.value = *flag;
  }
  return out;
}

}  // namespace

Result<std::vector<TomlValue>> ReadToml(std::string text, const std::string& what) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (Status status = CheckCharacters(text, what); !status.ok()) return status;
  const Spelling spelling(text);
  std::vector<TomlValue> found;
  try {
    const toml::table top = toml::parse(spelling.Spell(text));
    for (const auto& [key, node] : top) {
      std::string name = spelling.Read(std::string(key.str()));
      const toml::table* const table = node.as_table();
      if (table == nullptr || table->empty()) {
        found.push_back(ValueOf(std::nullopt, std::move(name), node, spelling));
        continue;
      }
      for (const auto& [inner, value] : *table)
        found.push_back(ValueOf(name, spelling.Read(std::string(inner.str())), value, spelling));
    }
  } catch (const toml::parse_error& error) {
    return Refused(AtLine(what, error.source().begin.line) +
                   Printable(spelling.Read(std::string(error.description()))));
  } catch (const std::logic_error&) {
    return Refused(what + ": this is no TOML");
  }
  return found;
}

std::string WhyUnreadable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return path + " is a directory; give a file";
  if (!std::filesystem::exists(path, ignored)) return "there is no " + path;
  return path + " cannot be read; look at its permissions";
}

Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return Refused(WhyUnreadable(path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > bytes_max) return Refused(path + " is too large for a configuration file");
  return text;
}

bool IsUtf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace ringway::shell
