#include "proto/shell/options.h"

#include <arpa/inet.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>

namespace ringway::shell {
namespace {

// Reads TOML for CLI11: a flat table of options by long name.
class TomlConfig : public CLI::Config {
 public:
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> found;
    try {
      const toml::table table = toml::parse(input);
      for (const auto& [key, value] : table) {
        CLI::ConfigItem item;
        item.name = std::string(key.str());
        item.inputs.push_back(Text(item.name, value));
        found.push_back(std::move(item));
      }
    } catch (const toml::parse_error& error) {
      std::ostringstream text;
      text << "line " << error.source().begin.line << ": " << error.description();
      throw CLI::ConversionError("config file, " + text.str());
    }
    return found;
  }

 private:
  static std::string Text(const std::string& name, const toml::node& value) {
    if (const auto text = value.value_exact<std::string>()) return *text;
    if (const auto number = value.value_exact<std::int64_t>()) return std::to_string(*number);
    if (const auto flag = value.value_exact<bool>()) return *flag ? "true" : "false";
    throw CLI::ConversionError("config file: " + name + " must be a string, an integer or a boolean");
  }
};

std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Status CheckExposure(const std::string& option, const Endpoint& endpoint, bool insecure) {
  if (insecure || IsLoopback(endpoint.host)) return Status::Ok();
  return {Code::kInvalidArgument, option + " " + ToString(endpoint) +
                                      " is not a loopback address and links are not encrypted yet; give --insecure to "
                                      "use it on a network that you trust"};
}

void ParseOrExit(CLI::App& app, int argc, char** argv) {
  app.set_config("--config", "", "TOML file with the options of this page by their long names");
  app.config_formatter(std::make_shared<TomlConfig>());
  app.allow_config_extras(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError& error) {
    const std::string text = error.what();  // ends with the key
    Die(app.get_name(),
        "config file: unknown option " + text.substr(text.rfind(' ') + 1) + "; see " + app.get_name() + " --help");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));
    Die(app.get_name(), OneLine(error.what()) + "; see " + app.get_name() + " --help");
  }
}

void Die(const std::string& program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), OneLine(what).c_str());
  std::exit(kExitUsage);
}

}  // namespace ringway::shell
