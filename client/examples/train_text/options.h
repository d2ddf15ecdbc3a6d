// The command line of train_text.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace train_text {

enum class Mode { kDdp, kDiloco };

struct Options {
  std::string socket_path = "/run/ringway/ringwayd.sock";
  std::string group = "train_text";
  std::uint32_t world = 0;  // required
  std::string text_path = "/usr/share/common-licenses";
  Mode mode = Mode::kDdp;
  std::uint64_t steps = 0;  // 0: `seconds` decides
  double seconds = 30;
  std::size_t batch = 64;
  std::uint64_t sync_every = 20;
  std::uint64_t seed = 1;
  std::string log_path;  // "": no log
  std::size_t sample_chars = 0;
  ringway::Encoding codec = ringway::Codec::kNone;
  std::uint16_t block = 0;  // 0: the codec's own
  bool error_feedback = false;
  std::uint32_t reconnect_seconds = 30;  // how long to look for a daemon that went away
  bool help = false;
  bool version = false;
};

// nullopt and a sentence in `error` if an argument is unknown, a value is invalid, or --world is missing.
std::optional<Options> ParseOptions(const std::vector<std::string>& arguments, std::string* error);

// What --help prints.
std::string Usage();

}  // namespace train_text
