// Command lines and config files of the programs: CLI11 options, TOML files with the same names, flags win over the
// file.
//
// Every failure is one line on stderr, "program: what; what to do", and exit code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/shell/log.h"

namespace ringway::shell {

inline constexpr int kExitUsage = 2;

// Accepts a displayable name: UTF-8 without control characters, of at most `bytes_max` bytes.
CLI::Validator Label(std::size_t bytes_max);

// Refuses an empty value: an unset variable in a script is no wish to go without.
CLI::Validator NotEmpty();

// Accepts "4096", "4K" or "64M" from `least` to `most`, and replaces it by the number of bytes.
CLI::Validator Bytes(std::uint64_t least, std::uint64_t most);

// The type name of an option whose digits are octal: 0o660 in a config file is "0660" on the command line.
inline constexpr char kOctal[] = "OCTAL";

// Adds --log-format, --log-level, --log-file and --log-file-bytes, into `options`, which outlives the parsing.
void AddLogOptions(CLI::App& app, LogOptions* options);

// Adds --check-config, for which a program ends by ExitChecked when all else is in order.
void AddCheckConfig(CLI::App& app, bool* only_checks);
// `except`: what was not checked, if there is anything.
[[noreturn]] void ExitChecked(const std::string& program, const std::string& except = "");

// Adds --version and --config FILE (TOML: any option by its long name; unknown keys are errors), then parses. Errors:
// kInvalidArgument with one line about the command line or the file. Throws only CLI::Success, for --help or --version.
Status Parse(CLI::App& app, int argc, const char* const* argv);

// The options that a program's config file sets, by their long names, as Parse reads them; of any program, so unknown
// keys are no error. Errors: kInvalidArgument.
using ConfigValues = std::map<std::string, std::string>;
Result<ConfigValues> ReadConfigFile(const std::string& path);

// Returns the options whose values in the file differ from `before`, except `reloaded`, separated by commas. A reload
// reports them.
std::string ChangedOptions(const ConfigValues& before, const ConfigValues& now, const std::string& reloaded);

// Parses, but prints help or the version and exits 0, or prints the line and exits 2.
void ParseOrExit(CLI::App& app, int argc, char** argv);

// Prints "program: what" as one line on stderr and exits 2.
[[noreturn]] void Die(const std::string& program, const std::string& what);

// Returns what `run` returns, a program's exit code. If it throws, as asio and the standard library do when out of
// memory or descriptors, the program dies with that text.
int RunOrDie(const std::string& program, const std::function<int()>& run);

}  // namespace ringway::shell
