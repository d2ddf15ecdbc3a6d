#include "client/examples/train_text/options.h"

#include <charconv>
#include <limits>

namespace train_text {
namespace {

constexpr char kUsageBeforeCodecs[] =
    R"(Usage: train_text --world K [OPTIONS]
Trains a character-level language model together with the other ranks of the group.

  --socket PATH      socket of this host's ringwayd (default /run/ringway/ringwayd.sock)
  --group G          name of the group (default train_text)
  --world K          start when K ranks are there; later ranks join the running training (required)
  --text PATH        a file, or a directory of files (default /usr/share/common-licenses)
  --mode ddp|diloco  average gradients at each step, or what ranks learned every H steps (default ddp)
  --sync-every H     diloco: steps between averages (default 20)
  --steps N          stop after N steps (default: --seconds says when)
  --seconds S        stop after S seconds (default 30)
  --batch B          examples a rank and step (default 64)
  --seed S           the same on all ranks (default 1)
  --codec C          how gradients travel: )";
constexpr char kUsageAfterCodecs[] =
    R"( (default none)
  --block N          elements that share a scale of the codec, 32 to 1024 (default 256)
  --error-feedback B on: add to each gradient what the codec took from the one before (default off)
  --reconnect S      look for a daemon that went away for S seconds; 0: end with it (default 30)
  --log FILE         one JSON object a line for each step (default: none)
  --sample-chars N   rank 0 prints N characters that the model writes at the end (default 0)
  --help             print this
  --version          print the version
)";

template <typename T>
bool ParseNumber(const std::string& text, T low, T* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, *value);
  return code == std::errc() && stop == end && *value >= low;
}

bool ParseCodec(const std::string& text, ringway::Encoding* codec) {
  for (const ringway::CodecInfo& info : ringway::kCodecs) {
    *codec = info.codec;
    if (text == info.name) return true;
  }
  return false;
}

bool ParseSwitch(const std::string& text, bool* value) {
  *value = text == "on";
  return text == "on" || text == "off";
}

bool ParseMode(const std::string& text, Mode* mode) {
  *mode = text == "diloco" ? Mode::kDiloco : Mode::kDdp;
  return text == "diloco" || text == "ddp";
}

bool ParseText(const std::string& text, std::string* value) {
  *value = text;
  return !text.empty();
}

enum class Parsed { kOk, kBadValue, kUnknown };

Parsed ParseOne(const std::string& name, const std::string& value, Options* options) {
  const auto result = [](bool ok) { return ok ? Parsed::kOk : Parsed::kBadValue; };
  if (name == "--socket") return result(ParseText(value, &options->socket_path));
  if (name == "--group") return result(ParseText(value, &options->group));
  if (name == "--world") return result(ParseNumber(value, 1U, &options->world));
  if (name == "--text") return result(ParseText(value, &options->text_path));
  if (name == "--mode") return result(ParseMode(value, &options->mode));
  if (name == "--steps") return result(ParseNumber(value, std::uint64_t{1}, &options->steps));
  if (name == "--seconds") {
    return result(ParseNumber(value, std::numeric_limits<double>::min(), &options->seconds));
  }
  if (name == "--batch") return result(ParseNumber(value, std::size_t{1}, &options->batch));
  if (name == "--sync-every") return result(ParseNumber(value, std::uint64_t{1}, &options->sync_every));
  if (name == "--seed") return result(ParseNumber(value, std::uint64_t{0}, &options->seed));
  if (name == "--log") return result(ParseText(value, &options->log_path));
  if (name == "--sample-chars") return result(ParseNumber(value, std::size_t{0}, &options->sample_chars));
  if (name == "--reconnect") return result(ParseNumber(value, 0U, &options->reconnect_seconds));
  if (name == "--codec") return result(ParseCodec(value, &options->codec));
  if (name == "--block") return result(ParseNumber(value, std::uint16_t{1}, &options->block));
  if (name == "--error-feedback") return result(ParseSwitch(value, &options->error_feedback));
  return Parsed::kUnknown;
}

}  // namespace

std::string Usage() {
  std::string codecs;
  for (const ringway::CodecInfo& info : ringway::kCodecs)
    codecs += (codecs.empty() ? "" : ", ") + std::string(info.name);
  return kUsageBeforeCodecs + codecs + kUsageAfterCodecs;
}

std::optional<Options> ParseOptions(const std::vector<std::string>& arguments, std::string* error) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name == "--version") {
      options.version = true;
      return options;
    }
    const bool has_value = i + 1 < arguments.size();
    const Parsed parsed = ParseOne(name, has_value ? arguments[i + 1] : std::string(), &options);
    if (parsed == Parsed::kUnknown) {
      *error = "unknown option " + name + "; --help lists them";
    } else if (!has_value) {
      *error = name + " needs a value";
    } else if (parsed == Parsed::kBadValue) {
      *error = "bad value for " + name + ": " + arguments[i + 1] + "; see --help";
    } else {
      continue;
    }
    return std::nullopt;
  }
  if (options.world == 0) {
    *error = "--world K is missing: with how many ranks the training starts (1: alone); see --help";
    return std::nullopt;
  }
  if (options.block != 0) options.codec.block = options.block;
  const char* reason = nullptr;
  if (!IsValid(options.codec, &reason)) {
    *error = std::string("--block: ") + reason;
    return std::nullopt;
  }
  if (options.error_feedback && options.codec.codec == ringway::Codec::kNone) {
    *error = "--error-feedback needs a --codec: without one nothing is lost";
    return std::nullopt;
  }
  return options;
}

}  // namespace train_text
