// Command lines and config files of the programs: CLI11 options, TOML files with the same names, flags win over the
// file.
//
// Every failure is one line on stderr, "program: what; what to do", and exit code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/shell/log.h"

namespace ringway::shell {

inline constexpr int kExitUsage = 2;

// Whether the host is a literal loopback address or "localhost".
bool IsLoopback(const std::string& host);

// Until links are encrypted, only loopback addresses are used unless --insecure is given. `option` is named in the
// text.
Status CheckExposure(const std::string& option, const Endpoint& endpoint, bool insecure);

// A name that others show: UTF-8 without control characters, of `bytes_max` bytes at most.
CLI::Validator Label(std::size_t bytes_max);

// Reads "4096", "4K" or "64M" from least to most, and puts the number of bytes in its place.
CLI::Validator Bytes(std::uint64_t least, std::uint64_t most);

// The type name of an option whose digits are octal: 0o660 in a config file is "0660" on the command line.
inline constexpr char kOctal[] = "OCTAL";

// Adds --log-format, --log-level, --log-file and --log-file-bytes, into `options`, which outlives the parsing.
void AddLogOptions(CLI::App& app, LogOptions* options);

// Adds --version, and --config FILE (TOML) to the app: any option by its long name; unknown keys are errors. Then
// parses. kInvalidArgument, with one line: what is wrong in the command line or the file. Throws CLI::Success, and
// nothing else, where the user asked for help or the version.
Status Parse(CLI::App& app, int argc, const char* const* argv);

// The same, but prints help or the version and exits 0, or prints the line and exits 2.
void ParseOrExit(CLI::App& app, int argc, char** argv);

// Prints "program: what" as one line on stderr and exits 2.
[[noreturn]] void Die(const std::string& program, const std::string& what);

// What `run` returns, a program's exit code. Where it throws, as asio and the standard library do if the system refuses
// memory or descriptors, the program dies with that as its line.
int RunOrDie(const std::string& program, const std::function<int()>& run);

}  // namespace ringway::shell
