#include "client/examples/train_text/options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <variant>

namespace train_text {
namespace {

struct Row {
  const char* usage;  // the name and a word for the value
  const char* help;
  std::variant<std::string Options::*, bool Options::*, std::uint32_t Options::*, std::uint64_t Options::*,
               double Options::*, ringway::Encoding Options::*>
      field;
  double least = 0;  // of a number

  std::string name() const { return std::string(usage).substr(0, std::string(usage).find(' ')); }
};

constexpr Row kRows[] = {
    {"--socket PATH", "socket of this host's ringwayd (default /run/ringway/ringwayd.sock)", &Options::socket_path},
    {"--group G", "name of the group (default train_text)", &Options::group},
    {"--world K", "start when K ranks are there; later ranks join the running training (required)", &Options::world, 1},
    {"--text PATH", "a file, or a directory of files (default /usr/share/common-licenses)", &Options::text_path},
    {"--steps N", "stop after N steps (default: --seconds says when)", &Options::steps, 1},
    {"--seconds S", "stop after S seconds (default 30)", &Options::seconds, std::numeric_limits<double>::min()},
    {"--batch B", "examples a rank and step (default 64)", &Options::batch, 1},
    {"--seed S", "the same on all ranks (default 1)", &Options::seed},
    {"--codec C", "how gradients travel (default none):", &Options::codec},
    {"--error-feedback B", "on: add to each gradient what the codec took from the one before (default off)",
     &Options::error_feedback},
    {"--reconnect S", "look for a daemon that went away for S seconds; 0: end with it (default 30)",
     &Options::reconnect_seconds},
    {"--log FILE", "one JSON object a line for each step (default: none)", &Options::log_path},
    {"--sample-chars N", "rank 0 prints N characters that the model writes at the end (default 0)",
     &Options::sample_chars},
};

bool Read(const std::string& text, double /*least*/, std::string* value) {
  *value = text;
  return !text.empty();
}

bool Read(const std::string& text, double /*least*/, bool* value) {
  *value = text == "on";
  return *value || text == "off";
}

bool Read(const std::string& text, double /*least*/, ringway::Encoding* value) {
  const auto* const info = std::find_if(std::begin(ringway::kCodecs), std::end(ringway::kCodecs),
                                        [&](const ringway::CodecInfo& one) { return text == one.name; });
  if (info == std::end(ringway::kCodecs)) return false;
  *value = info->codec;
  return true;
}

template <typename Number>
bool Read(const std::string& text, double least, Number* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, *value);
  return code == std::errc() && stop == end && static_cast<double>(*value) >= least;
}

std::string LineOf(std::string usage, const std::string& help) {
  usage.resize(std::max<std::size_t>(usage.size(), 18), ' ');
  return "  " + usage + " " + help + "\n";
}

}  // namespace

std::string Usage() {
  std::string text =
      "Usage: train_text --world K [OPTIONS]\n"
      "Trains a character-level language model together with the other ranks of the group.\n\n";
  for (const Row& row : kRows) {
    std::string help = row.help;
    if (row.name() == "--codec") {
      for (const ringway::CodecInfo& info : ringway::kCodecs) help += " " + std::string(info.name);
    }
    text += LineOf(row.usage, help);
  }
  return text + LineOf("--help", "print this") + LineOf("--version", "print the version");
}

std::optional<Options> ParseOptions(const std::vector<std::string>& arguments, std::string* error) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& name = arguments[i];
    options.help = name == "--help" || name == "-h";
    options.version = name == "--version";
    if (options.help || options.version) return options;
    const auto* const row =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& one) { return one.name() == name; });
    const auto read = [&](auto field) { return Read(arguments[i + 1], row->least, &(options.*field)); };
    if (row == std::end(kRows)) {
      *error = "unknown option " + name + "; --help lists them";
    } else if (i + 1 == arguments.size()) {
      *error = name + " needs a value";
    } else if (!std::visit(read, row->field)) {
      *error = "bad value for " + name + ": " + arguments[i + 1] + "; see --help";
    } else {
      continue;
    }
    return std::nullopt;
  }
  if (options.world == 0) {
    *error = "--world K is missing: with how many ranks the training starts (1: alone); see --help";
  } else if (options.error_feedback && options.codec.codec == ringway::Codec::kNone) {
    *error = "--error-feedback needs a --codec: without one nothing is lost";
  } else {
    return options;
  }
  return std::nullopt;
}

}  // namespace train_text
