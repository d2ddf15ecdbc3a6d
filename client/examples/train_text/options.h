// The command line of train_text.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace train_text {

struct Options {
  std::string socket_path = "/run/ringway/ringwayd.sock";
  std::string group = "train_text";
  std::uint32_t world = 0;  // required
  std::string text_path = "/usr/share/common-licenses";
  std::uint64_t steps = 0;  // 0: `seconds` decides
  double seconds = 30;
  std::uint64_t batch = 64;
  std::uint64_t seed = 1;
  ringway::Encoding codec = ringway::Codec::kNone;
  bool error_feedback = false;
  std::uint32_t reconnect_seconds = 30;  // how long to look for a daemon that went away
  std::string log_path;                  // "": no log
  std::uint64_t sample_chars = 0;
  bool help = false;
  bool version = false;
};

// Returns nullopt and a sentence in `error` if an argument is unknown, a value is invalid, or --world is missing.
std::optional<Options> ParseOptions(const std::vector<std::string>& arguments, std::string* error);

// Returns what --help prints.
std::string Usage();

}  // namespace train_text
