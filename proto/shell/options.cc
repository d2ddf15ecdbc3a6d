#include "proto/shell/options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "proto/byte_size.h"
#include "proto/printable.h"
#include "proto/shell/toml_text.h"

namespace ringway::shell {
namespace {

constexpr std::size_t kConfigBytesMax = 1 << 20;

std::string ConfigFile(const CLI::App& app) {
  const CLI::Option* option = app.get_config_ptr();
  return option == nullptr || option->empty() ? "config file" : "config file " + option->as<std::string>();
}

// Reads TOML for CLI11: a flat table of options by long name.
class TomlConfig : public CLI::Config {
 public:
  explicit TomlConfig(const CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    const Result<std::vector<TomlValue>> values = ReadToml(text, ConfigFile(app_));
    if (!values.ok()) throw CLI::ConversionError(values.status().text());
    std::vector<CLI::ConfigItem> found;
    for (const TomlValue& value : values.value()) {
      CLI::ConfigItem item;
      item.name = value.table.value_or(value.key);
      item.inputs.push_back(Text(item.name, value));
      found.push_back(std::move(item));
    }
    return found;
  }

 private:
  // The digits of an octal integer as written, for an option that reads them as octal.
  std::string IntegerText(const std::string& name, std::int64_t number, bool is_octal) const {
    const CLI::Option* option = app_.get_option_no_throw("--" + name);
    if (!is_octal || number < 0 || option == nullptr || option->get_type_name() != kOctal) {
      return std::to_string(number);
    }
    std::array<char, 24> digits{};
    return {digits.data(), std::to_chars(digits.begin(), digits.end(), number, 8).ptr};
  }

  std::string Text(const std::string& name, const TomlValue& value) const {
    const bool is_top = !value.table;
    if (const auto* text = std::get_if<std::string>(&value.value); is_top && text != nullptr) {
      if (!IsPrintable(*text))
        throw CLI::ConversionError(ConfigFile(app_) + ": " + name + " holds a character that is not printable");
      return *text;
    }
    if (const auto* number = std::get_if<std::int64_t>(&value.value); is_top && number != nullptr)
      return IntegerText(name, *number, value.is_octal);
    if (const auto* flag = std::get_if<bool>(&value.value); is_top && flag != nullptr) return *flag ? "true" : "false";
    throw CLI::ConversionError(ConfigFile(app_) + ": " + name + " must be a string, an integer or a boolean" +
                               (is_top && std::holds_alternative<TomlOther>(value.value)
                                    ? "; write a list as one string, as on the command line: \"A,B,C\""
                                    : ""));
  }

  const CLI::App& app_;
};

// Returns the command as far as its words are subcommands: "ringwayctl certs issue".
std::string CommandIn(const CLI::App& app) {
  std::string words = app.get_name();
  for (const CLI::App* at = &app; at != nullptr;) {
    const std::vector<CLI::App*> given = at->get_subcommands();
    at = given.empty() ? nullptr : given.front();
    if (at != nullptr) words += " " + at->get_name();
  }
  return words;
}

std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

CLI::Validator Label(std::size_t bytes_max) {
  const auto check = [bytes_max](const std::string& text) -> std::string {
    if (!IsUtf8(text) || !IsPrintable(std::string_view(text))) return "is to be UTF-8 without control characters";
    if (text.size() > bytes_max) return "has " + std::to_string(bytes_max) + " bytes at most";
    return {};
  };
  return {check, ""};
}

CLI::Validator NotEmpty() {
  return {[](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, ""};
}

CLI::Validator Bytes(std::uint64_t least, std::uint64_t most) {
  const auto read = [least, most](std::string& text) -> std::string {
    const std::optional<std::uint64_t> bytes = ParseBytes(text);
    if (!bytes) return "'" + text + "' is no size; write 4096, 4K or 64M";
    if (*bytes < least || *bytes > most) return text + " is not from " + BytesText(least) + " to " + BytesText(most);
    text = std::to_string(*bytes);
    return {};
  };
  return {read, ""};
}

void AddLogOptions(CLI::App& app, LogOptions* options) {
  app.add_option("--log-format", options->format, "text or json")->capture_default_str();
  app.add_option("--log-level", options->level, "debug, info, warning or error")->capture_default_str();
  app.add_option("--log-file", options->file, "file to log to (default: standard error)");
  app.add_option("--log-file-bytes", options->file_bytes,
                 "its size; full files are kept beside it, the last " + std::to_string(kLogFilesKept))
      ->transform(Bytes(std::uint64_t{64} << 10, std::uint64_t{1} << 40))
      ->type_name("SIZE")
      ->default_str(BytesText(options->file_bytes));
}

void AddCheckConfig(CLI::App& app, bool* only_checks) {
  app.add_flag("--check-config", *only_checks,
               "only say whether options, files, addresses and certificates are in order, for the user who asks")
      ->configurable(false);
}

void ExitChecked(const std::string& program, const std::string& except) {
  std::printf("%s: the configuration is in order%s%s\n", program.c_str(), except.empty() ? "" : "; ", except.c_str());
  std::exit(0);
}

namespace {

std::vector<const CLI::App*> CommandsIn(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The innermost command that was given.
const CLI::App& Given(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : Given(*given.front());
}

// The word that stands where a command belongs; empty: there is none, or no command belongs there.
std::string MistypedCommand(const CLI::App& app) {
  if (CommandsIn(Given(app)).empty()) return "";
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with('-')) return word;
  }
  return "";
}

std::string CommandsOf(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : CommandsIn(Given(app))) {
    names += (names.empty() ? " " : ", ") + command->get_name();
  }
  return names;
}

}  // namespace

Status Parse(CLI::App& app, int argc, const char* const* argv) {
  app.set_config("--config", "", "TOML file with the options of this page by their long names");
  app.config_formatter(std::make_shared<TomlConfig>(app));
  app.allow_config_extras(false);
  app.set_version_flag("--version", app.get_name() + " " RINGWAY_VERSION, "Print the version")->configurable(false);
  const auto refuse = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, OneLine(what) + "; see " + CommandIn(app) + " --help");
  };
  try {
    app.parse(argc, argv);
    return Status::Ok();
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ConfigError& error) {
    const std::string text = error.what();
    const std::size_t colon = text.find(": This option");  // "KEY: This option is not allowed in a configuration file"
    if (colon != std::string::npos)
      return refuse(ConfigFile(app) + ": " + text.substr(0, colon) + " belongs on the command line");
    return refuse(ConfigFile(app) + ": unknown option " + text.substr(text.rfind(' ') + 1));
  } catch (const CLI::FileError& error) {
    const std::vector<std::string>& paths = app.get_config_ptr()->results();
    return refuse(paths.empty() ? error.what() : "--config: " + WhyUnreadable(paths.back()));
  } catch (const CLI::ExtrasError&) {
    const std::string word = MistypedCommand(app);
    if (!word.empty()) return refuse("no command '" + word + "': it is one of" + CommandsOf(app));
    std::string words;  // CLI11's own text has them backwards
    for (const std::string& extra : app.remaining(true)) words += " " + extra;
    return refuse("not understood:" + words);
  } catch (const CLI::ParseError& error) {
    const std::string word = MistypedCommand(app);
    return refuse(word.empty() ? error.what() : "no command '" + word + "': it is one of" + CommandsOf(app));
  }
}

Result<ConfigValues> ReadConfigFile(const std::string& path) {
  const auto refuse = [](const std::string& what) { return Status(Code::kInvalidArgument, OneLine(what)); };
  const Result<std::string> text = ReadTextFile(path, kConfigBytesMax);
  if (!text.ok()) return refuse(text.status().text());
  std::istringstream input(text.value());
  CLI::App app;
  app.set_config("--config", path);
  ConfigValues values;
  try {
    for (const CLI::ConfigItem& item : TomlConfig(app).from_config(input)) values[item.name] = item.inputs.front();
  } catch (const CLI::Error& error) {
    return refuse(path + ": " + error.what());
  }
  return values;
}

std::string ChangedOptions(const ConfigValues& before, const ConfigValues& now, const std::string& reloaded) {
  std::string changed;
  const auto add = [&](const std::string& name) {
    if (name != reloaded) changed += (changed.empty() ? "" : ",") + name;
  };
  for (const auto& [name, value] : now) {
    const auto old = before.find(name);
    if (old == before.end() || old->second != value) add(name);
  }
  for (const auto& [name, value] : before) {
    if (!now.contains(name)) add(name);
  }
  return changed;
}

void ParseOrExit(CLI::App& app, int argc, char** argv) {
  try {
    if (const Status status = Parse(app, argc, argv); !status.ok()) Die(app.get_name(), status.text());
  } catch (const CLI::Success& help) {
    std::exit(app.exit(help));
  }
}

void Die(const std::string& program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), OneLine(what).c_str());
  std::exit(kExitUsage);
}

int RunOrDie(const std::string& program, const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::system_error& error) {
    const bool lacks_descriptors = error.code().value() == EMFILE;
    Die(program, std::string(error.what()) + (lacks_descriptors ? "; raise the limit of open files (ulimit -n)" : ""));
  } catch (const std::exception& error) {
    Die(program, error.what());
  }
}

}  // namespace ringway::shell
