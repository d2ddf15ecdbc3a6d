#include "client/bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "client/bench/report.h"
#include "proto/byte_size.h"

namespace ringway::bench {
namespace {

constexpr std::uint32_t kWorldMax = 64;
constexpr std::uint32_t kInFlightMax = 256;
constexpr std::uint32_t kGroupsMax = 64;
constexpr std::uint32_t kTensorsMax = 100'000;

template <typename Enum>
std::vector<std::string> NamesOf(std::uint8_t count) {
  std::vector<std::string> names;
  for (std::uint8_t i = 0; i < count; ++i) names.emplace_back(NameOf(static_cast<Enum>(i)));
  return names;
}

// Returns the names of the kinds that move elements. Each rank is both ends of a message, so recv has no name here.
std::vector<std::string> Collectives() {
  std::vector<std::string> names;
  for (std::uint8_t i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (!IsEmpty(kind) && kind != OpKind::kRecv) names.emplace_back(NameOf(kind));
  }
  return names;
}

// REQUIRES: `name` is one of NamesOf<Enum>(count).
template <typename Enum>
Enum Named(const std::string& name, std::uint8_t count) {
  const auto names = NamesOf<Enum>(count);
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::string CheckBytes(const std::string& text) {
  return ParseBytes(text) ? "" : "not a size: " + text + " (write 4096, 4K, 256M or 2G)";
}

// The options as text and enums, before they are joined into Options.
struct Raw {
  std::string collective = "all_reduce";
  std::vector<std::string> bytes;
  std::vector<std::string> baselines;
  std::string min_bytes = "4K";
  std::string max_bytes = "256M";
  std::string dtype = "f32";
  std::string op = "sum";
  std::string codec = "none";
  std::uint16_t block = 0;
  std::string rounding = "nearest";
  std::string algorithm;
  std::string beside;
  std::uint32_t quorum = 0;
  std::uint32_t grace_ms = 0;
  std::string late = "drop";
  std::uint32_t timeout_s = 300;
  std::uint32_t settle_s = 0;
};

void AddWorldOptions(CLI::App* app, Options* options, Raw* raw) {
  app->add_option("--socket", options->socket_path, "Socket of the daemon on this host")->capture_default_str();
  app->add_option("--group", options->group, "Name of the group to join")->required();
  app->add_option("--world", options->world, "Peers to wait for")->required()->check(CLI::Range(1U, kWorldMax));
  app->add_option("--groups", options->groups,
                  "Groups NAME.0, NAME.1 .. that are measured at once, a process for each (default: NAME alone)")
      ->check(CLI::Range(1U, kGroupsMax));
  app->add_option("--timeout", raw->timeout_s,
                  "Seconds that joining, each operation, and each run of another system may take")
      ->capture_default_str()
      ->check(CLI::Range(1U, 86'400U));
  app->add_option("--json", options->json_path, "Write the results to this file (default: none)");
}

// The options that say how often, and how many at once.
void AddRunOptions(CLI::App* app, Options* options, Raw* raw) {
  app->add_option("--iters", options->iterations, "Measured iterations a size")
      ->capture_default_str()
      ->check(CLI::Range(1U, 1'000'000U));
  app->add_option("--warmup", options->warmup, "Unmeasured iterations before")
      ->capture_default_str()
      ->check(CLI::Range(0U, 1'000'000U));
  app->add_option("--settle", raw->settle_s,
                  "Seconds to leave the paths to the daemons' probes first, and to adopt better plans")
      ->capture_default_str()
      ->check(CLI::Range(0U, 3600U));
  app->add_option("--in-flight", options->in_flight, "Operations in flight; an iteration is that many operations")
      ->capture_default_str()
      ->check(CLI::Range(1U, kInFlightMax));
  app->add_option("--tensors", options->tensors, "Tensors that the buffer of an all_reduce is of, which travel as one")
      ->capture_default_str()
      ->check(CLI::Range(1U, kTensorsMax));
  app->add_option(
         "--beside", raw->beside,
         "Measure each size a second time, while an all-reduce of this size is under way all the time (default: "
         "once only)")
      ->check(CLI::Validator(CheckBytes, "SIZE"));
  auto* const quorum = app->add_option("--quorum", raw->quorum,
                                       "Ranks whose inputs an all_reduce waits for; the table counts late ones "
                                       "(default: all)")
                           ->check(CLI::Range(1U, kWorldMax));
  app->add_option("--grace", raw->grace_ms, "Milliseconds to wait for more of them")
      ->capture_default_str()
      ->check(CLI::Range(0U, 86'400'000U))
      ->needs(quorum);
  app->add_option("--late", raw->late, "What becomes of an input that comes late: drop, or next (is added to the next)")
      ->capture_default_str()
      ->check(CLI::IsMember({"drop", "next"}))
      ->needs(quorum);
  app->add_option("--priority", options->priority, "Of what is measured; that of --beside has 0")
      ->capture_default_str()
      ->check(CLI::Range(0U, 255U));
}

void AddOperationOptions(CLI::App* app, Options* options, Raw* raw) {
  app->add_option(
         "--collective", raw->collective,
         "What to measure, from or to rank 0 where there is a root; sizes are of the buffer that all ranks "
         "share, rounded down to as much of each rank where it has their parts; send: each rank to the next one, "
         "and from the one before")
      ->capture_default_str()
      ->check(CLI::IsMember(Collectives()));
  const CLI::Validator size(CheckBytes, "SIZE");
  auto* const bytes =
      app->add_option("--bytes", raw->bytes, "These sizes: 4K,1M,64M (default: the range of the next three)")
          ->delimiter(',')
          ->check(size);
  app->add_option("--min-bytes", raw->min_bytes, "Smallest size (suffixes K M G)")
      ->capture_default_str()
      ->check(size)
      ->excludes(bytes);
  app->add_option("--max-bytes", raw->max_bytes, "Largest size")->capture_default_str()->check(size)->excludes(bytes);
  app->add_option("--factor", options->factor, "From one size to the next")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 20))
      ->excludes(bytes);
  app->add_option("--dtype", raw->dtype, "Element type")
      ->capture_default_str()
      ->check(CLI::IsMember(NamesOf<DType>(kDTypeCount)));
  app->add_option("--op", raw->op, "Reduction")
      ->capture_default_str()
      ->check(CLI::IsMember(NamesOf<ReduceOp>(kReduceOpCount)));
  app->add_option("--codec", raw->codec, "How elements travel")
      ->capture_default_str()
      ->check(CLI::IsMember(NamesOf<Codec>(kCodecCount)));
  app->add_option("--block", raw->block, "Elements that share a scale of the codec (default: 256)")
      ->check(CLI::IsMember(std::vector<std::uint16_t>{32, 64, 128, 256, 512, 1024}));
  app->add_option("--rounding", raw->rounding, "How the codec rounds")
      ->capture_default_str()
      ->check(CLI::IsMember(NamesOf<Rounding>(kRoundingCount)));
  app->add_option("--algorithm", raw->algorithm, "Who sends what to whom (default: as the group's plan says)")
      ->check(CLI::IsMember(NamesOf<Algorithm>(kAlgorithmCount)));
  app->add_option("--line-mbit", options->line_mbit,
                  "Rate of this host's uplink: the table says how much of it was used (default: not known)")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option(
         "--compare", raw->baselines,
         "NAME=COMMAND: another system, which every rank runs after each size; {rank}, {world}, {bytes}, "
         "{iters}, {warmup} and {json} (where it writes its results) are replaced; may be repeated (default: none)")
      ->check([](const std::string& text) { return ParseBaseline(text) ? "" : "not NAME=COMMAND: " + text; });
  app->add_flag("--error-feedback", options->reduction.feedback,
                "Add to each operation what the codec took from the one before");
  app->add_option("--device", options->device,
                  "Reduce memory of this GPU, staged through the host (default: shared memory of the host)")
      ->check(CLI::Range(0, 1023));
  app->add_flag("--in-place", options->in_place, "Reduce in place (a copy more)");
  app->add_flag("--check", options->check, "Verify every element of every result; exit 1 if any is wrong");
}

// Checks that need several options. Returns what is wrong, or "".
std::string Join(const Raw& raw, Options* options) {
  options->min_bytes = *ParseBytes(raw.min_bytes);
  options->max_bytes = *ParseBytes(raw.max_bytes);
  for (const std::string& bytes : raw.bytes) options->sizes.push_back(*ParseBytes(bytes));
  for (const std::string& baseline : raw.baselines) options->baselines.push_back(*ParseBaseline(baseline));
  options->timeout = std::chrono::seconds(raw.timeout_s);
  options->settle = std::chrono::seconds(raw.settle_s);
  options->quorum = Quorum::Ranks(raw.quorum);
  options->grace = std::chrono::milliseconds(raw.grace_ms);
  options->late = raw.late == "next" ? Late::kNext : Late::kDropped;
  if (const std::string problem = CheckWritable(options->json_path); !options->json_path.empty() && !problem.empty()) {
    return problem + ": give --json a path that can be written";
  }
  if (!raw.beside.empty()) options->beside_bytes = *ParseBytes(raw.beside);
  if (!raw.beside.empty() && options->beside_bytes < sizeof(float)) return "--beside takes 4 bytes at least";
  if (options->min_bytes > options->max_bytes) return "--min-bytes is more than --max-bytes";
  Reduction& reduction = options->reduction;
  reduction.dtype = Named<DType>(raw.dtype, kDTypeCount);
  reduction.op = Named<ReduceOp>(raw.op, kReduceOpCount);
  reduction.codec = Named<Codec>(raw.codec, kCodecCount);
  if (raw.block > 0) reduction.codec.block = raw.block;
  reduction.codec.rounding = Named<Rounding>(raw.rounding, kRoundingCount);
  options->collective = Named<OpKind>(raw.collective, kOpKindCount);
  if (!raw.algorithm.empty()) options->algorithm = Named<Algorithm>(raw.algorithm, kAlgorithmCount);
  if (options->algorithm && !HasAlgorithm(options->collective, *options->algorithm))
    return "--algorithm " + raw.algorithm + " does not compute it: " + raw.collective + " has " +
           AlgorithmsOf(options->collective);
  if (!Reduces(options->collective) && reduction.op != ReduceOp::kSum) return raw.collective + " has no --op";
  const bool apart = CountsByRank(options->collective) || options->collective == OpKind::kAllToAllV ||
                     options->collective == OpKind::kAllGatherV || options->collective == OpKind::kSend;
  if (apart && options->in_place) return raw.collective + " is never --in-place";
  if (options->collective == OpKind::kBroadcast) options->in_place = true;
  const char* reason = nullptr;
  if (!IsSupported(reduction.dtype, reduction.op, reduction.codec, &reason)) return reason;
  if (!CanAgreeOnInputs(options->collective, reduction.op, options->quorum, 0, &reason)) return reason;
  const bool keeps_late = options->late == Late::kNext;
  if ((reduction.feedback || keeps_late) &&
      !CanFeedBack(options->collective, reduction.dtype, reduction.op, reduction.codec, options->late, &reason))
    return reason;
  if (keeps_late && options->check) return "--check knows no sums of what came late: use --late drop";
  if (options->collective == OpKind::kSend && reduction.codec.codec != Codec::kNone) return kMessagesHaveNoCodec;
  if (options->collective == OpKind::kSend && options->world == 1) return "send is between ranks: --world 2 or more";
  if (options->tensors > 1 && options->collective != OpKind::kAllReduce) return "--tensors is for all_reduce";
  const std::uint64_t element_bytes = SizeOf(reduction.dtype);
  const std::vector<std::uint64_t> sizes = options->sizes.empty() ? std::vector{options->min_bytes} : options->sizes;
  if (std::ranges::any_of(sizes, [&](std::uint64_t bytes) { return bytes > 0 && bytes < element_bytes; }))
    return "a size is less than an element of " + raw.dtype + ", " + std::to_string(element_bytes) + " bytes";
  return "";
}

}  // namespace

std::vector<std::uint64_t> Options::Sizes() const {
  const std::uint64_t element_bytes = SizeOf(reduction.dtype);
  std::vector<std::uint64_t> found;
  for (const std::uint64_t bytes : sizes) found.push_back(bytes / element_bytes * element_bytes);
  if (!found.empty()) return found;
  for (std::uint64_t bytes = min_bytes; bytes <= max_bytes; bytes *= factor) {
    const std::uint64_t whole = bytes / element_bytes * element_bytes;
    if (found.empty() || found.back() != whole) found.push_back(whole);
    if (bytes == 0 || bytes > max_bytes / factor) break;
  }
  return found;
}

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Raw raw;
  CLI::App app("Measures collectives between the trainers of a group, in the style of nccl-tests.", "ringway-bench");
  app.set_version_flag("--version", "ringway-bench " RINGWAY_VERSION, "Print the version");
  AddWorldOptions(&app, &parsed.options, &raw);
  AddOperationOptions(&app, &parsed.options, &raw);
  AddRunOptions(&app, &parsed.options, &raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.exit_status = 0;
    parsed.message = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.exit_status = 0;
    parsed.message = std::string(version.what()) + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.message = error.what();
  }
  if (parsed.message.empty()) parsed.message = Join(raw, &parsed.options);
  if (parsed.message.empty()) return parsed;
  std::replace(parsed.message.begin(), parsed.message.end(), '\n', ' ');
  parsed.exit_status = 2;
  parsed.message = "ringway-bench: " + parsed.message + "; see ringway-bench --help\n";
  return parsed;
}

}  // namespace ringway::bench
