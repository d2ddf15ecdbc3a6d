// A data-parallel trainer over Ringway: a character-level language model on real text. A template to copy.
//
//   train_text --socket /run/ringway/ringwayd.sock --group demo --world 4 --seconds 60 --sample-chars 400
//
// Each step averages the gradients of all ranks. A layer's slice is submitted as soon as its backward pass is done, so
// its all-reduce overlaps with the backward pass of the earlier layers.
//
// A rank that dies only makes the world smaller: the others redistribute the text and go on. A rank that joins later,
// or rejoins after its daemon was restarted or the others had lost it, fetches the state first. SIGTERM or Ctrl-C at
// any rank ends the training at all ranks at the same step (a second one kills). At the end all hold the same bytes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/train_text/model.h"
#include "client/examples/train_text/optimizer.h"
#include "client/examples/train_text/options.h"
#include "client/examples/train_text/text.h"

namespace train_text {
namespace {

using Clock = std::chrono::steady_clock;
using Wide = unsigned long long;  // as printf prints it
using ringway::DType;
using ringway::OpResult;
using ringway::ReduceOp;

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int signal) {
  stop_requested = 1;
  std::signal(signal, SIG_DFL);
}

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- errors
//
// A lost peer is no error: Ringway retries with the survivors. Nor is a restart of this rank's own daemon: the session
// rejoins as a newcomer, and so must the trainer. Errors are a daemon that stays away, or a wrong call.

[[noreturn]] void Fail(const std::string& sentence, int exit_code = 1) {
  std::fprintf(stderr, "train_text: %s\n", sentence.c_str());
  std::exit(exit_code);
}

std::string Describe(const ringway::Status& error) {
  return std::string(ringway::NameOf(error.code())) + ": " + error.text();
}

// Thrown by Must for kRejoined, and caught where the trainer restarts as a newcomer.
struct Rejoined {
  std::string why;
};

template <typename T>
T Must(ringway::Result<T> expected) {
  if (expected.status().code() == ringway::Code::kRejoined) throw Rejoined{Describe(expected.status())};
  if (!expected.ok()) Fail(Describe(expected.status()));
  return std::move(expected.value());
}

// ---- output: a line now and then, and with --log one JSON object for each step

class Report {
 public:
  explicit Report(const std::string& log_path) {
    if (log_path.empty()) return;
    log_.reset(std::fopen(log_path.c_str(), "w"));
    if (log_ == nullptr) Fail("cannot write the log " + log_path);
  }

  // `loss`: the average of all ranks, nats a character. `result`: of the step's last operation.
  void Step(std::uint64_t step, double loss, double progress, double seconds, const OpResult& result) {
    smooth_loss_ += (loss - smooth_loss_) * std::max(0.02, 1 / static_cast<double>(++steps_));
    if (log_ != nullptr) {
      std::fprintf(log_.get(),
                   "{\"step\": %llu, \"loss\": %.6f, \"progress\": %.6f, \"ms\": %.3f, \"world\": %u, "
                   "\"wire_bytes\": %llu}\n",
                   Wide{step}, loss, progress, seconds * 1e3, result.world_size, wire_bytes_);
      std::fflush(log_.get());  // so that the file can be followed
    }
    constexpr double kSecondsBetweenLines = 10;
    if (result.epoch == printed_epoch_ && SecondsSince(printed_at_) < kSecondsBetweenLines) return;
    printed_epoch_ = result.epoch;
    printed_at_ = Clock::now();
    std::printf("step %llu loss %.4f world %u rank %u\n", Wide{step}, smooth_loss_, result.world_size, result.rank);
    std::fflush(stdout);
  }

  void AddWireBytes(std::uint64_t bytes) { wire_bytes_ += bytes; }
  double smooth_loss() const { return smooth_loss_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> log_;
  std::uint64_t steps_ = 0;
  double smooth_loss_ = 0;
  Wide wire_bytes_ = 0;  // sent by this rank so far
  std::uint64_t printed_epoch_ = 0;
  Clock::time_point printed_at_{};
};

// ---- training

class Trainer {
 public:
  Trainer(const Options& options, std::vector<std::uint8_t> text)
      : options_(options), text_(std::move(text)), report_(options.log_path) {
    model_.Initialize(options.seed, parameters_.data());
  }

  // Joins the group and fetches its state.
  void Join(const ringway::JoinOptions& options) {
    session_ = Must(state_.Join(options));
    random_ = Random(options_.seed + 1000 * session_->peer_id());  // each rank draws its own examples
    gradient_ = Must(session_->Allocate(count_ * sizeof(float)));  // shared memory: travels without a copy
    average_ = Must(session_->Allocate(count_ * sizeof(float)));
  }

  void Run() {
    for (bool rejoined = false; !Finished();) {
      try {
        if (rejoined) Must(state_.Sync(*session_));
        FollowView();
        step_began_ = Clock::now();
        while (!Finished()) Step();
      } catch (const Rejoined& cause) {  // operations in flight are lost, and the others are ahead
        rejoined = true;
        std::printf("step %llu %s\n", Wide{done_.steps}, cause.why.c_str());
        std::fflush(stdout);
      }
    }
    PrintModel();
    if (const ringway::Status error = session_->Leave(); !error.ok()) Fail(Describe(error));
  }

 private:
  void Step() {
    DrawBatch(text_, OwnShard(), model_.context(), options_.batch, &random_, &batch_);
    std::vector<ringway::Work> works;
    mine_.loss = model_.LossAndGradient(
        parameters_.data(), batch_, gradient_.as<float>(), [&](std::size_t offset, std::size_t count) {
          const std::string residual = options_.error_feedback ? "from " + std::to_string(offset) : "";
          works.push_back(Must(session_->AllReduceAsync(
              gradient_.as<float>() + offset, average_.as<float>() + offset, count, DType::kF32, ReduceOp::kAvg,
              {.channel = 0, .codec = options_.codec, .error_feedback = residual})));
        });
    // Each rank has its own clock, but all see the same average. One rank that has to stop makes it at least 1.
    mine_.progress = stop_requested != 0 ? view_.world_size : Progress();
    works.push_back(Must(session_->AllReduceAsync(&mine_, &all_, 2, DType::kF64, ReduceOp::kAvg)));
    for (ringway::Work& work : works) {
      view_ = Must(work.Wait());
      report_.AddWireBytes(view_.wire_bytes);
    }
    done_ = {done_.steps + 1, all_.progress};
    AdamWStep({parameters_.data(), first_moment_.data(), second_moment_.data(), count_}, average_.as<float>(),
              done_.steps, LearningRate());
    step_seconds_ = SecondsSince(step_began_);
    step_began_ = Clock::now();
    report_.Step(done_.steps, all_.loss, done_.progress, step_seconds_, view_);
    // All ranks see the same flag in the same result, so all let newcomers in at the same place.
    if (!Finished() && Must(state_.Advance(*session_, view_.update_waits))) FollowView();
  }

  // 0 at the beginning, 1 at the end.
  double Progress() const {
    return options_.steps != 0 ? static_cast<double>(done_.steps + 1) / static_cast<double>(options_.steps)
                               : done_.progress + step_seconds_ / options_.seconds;
  }
  bool Finished() const { return done_.progress >= 1 - 1e-9; }

  double LearningRate() const {
    constexpr double kHighest = 2e-3;
    constexpr double kWarmUpSteps = 100;
    return kHighest * std::min(1.0, static_cast<double>(done_.steps) / kWarmUpSteps) *
           (1 - 0.95 * std::min(1.0, done_.progress));
  }

  void FollowView() {
    view_.epoch = session_->epoch();
    view_.rank = session_->rank();
    view_.world_size = session_->world_size();
  }

  Shard OwnShard() const {
    const Shard shard = ShardOf(text_.size(), view_.rank, view_.world_size);
    if (shard.end - shard.begin <= model_.context()) Fail("the text is too short for so many ranks; see --text");
    return shard;
  }

  void PrintModel() {
    if (view_.rank == 0 && options_.sample_chars != 0) {
      const std::string prompt = "The ";  // without one, a model trained for seconds writes blanks
      const std::string sample = model_.Sample(parameters_.data(), prompt, options_.sample_chars, options_.seed);
      std::printf("sample:\n%s%s\n", prompt.c_str(), sample.c_str());
    }
    std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
    const auto* const bytes = reinterpret_cast<const unsigned char*>(parameters_.data());
    for (std::size_t i = 0; i < count_ * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3U;
    std::printf("rank %u final loss %.4f model hash %016llx\n", view_.rank, report_.smooth_loss(), Wide{hash});
  }

  struct Statistics {
    double loss = 0;
    double progress = 0;
  };

  struct Done {
    std::uint64_t steps = 0;
    double progress = 0;
  };

  const Options options_;
  const std::vector<std::uint8_t> text_;
  Report report_;
  Model model_{Shape{}};
  const std::size_t count_ = model_.parameter_count();

  // What all ranks have alike.
  Done done_;
  std::vector<float> parameters_ = std::vector<float>(count_);
  std::vector<float> first_moment_ = parameters_, second_moment_ = parameters_;
  ringway::SharedState state_ =
      Must(ringway::SharedState::Make({{"done", &done_, sizeof done_},
                                       {"parameters", parameters_.data(), count_ * sizeof(float)},
                                       {"first moment", first_moment_.data(), count_ * sizeof(float)},
                                       {"second moment", second_moment_.data(), count_ * sizeof(float)}}));

  std::unique_ptr<ringway::Session> session_;
  OpResult view_;  // of the newest result, or as the session says
  Random random_{0};
  Batch batch_;
  ringway::Buffer gradient_, average_;
  Statistics mine_, all_;
  Clock::time_point step_began_;
  double step_seconds_ = 0;  // of the last one
};

int Main(const std::vector<std::string>& arguments) {
  constexpr int kExitUsage = 2;
  std::string error;
  const std::optional<Options> options = ParseOptions(arguments, &error);
  if (!options) Fail(error, kExitUsage);
  if (options->help || options->version) {
    std::fputs(options->help ? Usage().c_str() : "train_text " RINGWAY_VERSION "\n", stdout);
    return 0;
  }
  std::optional<std::vector<std::uint8_t>> text = ReadSymbols(options->text_path, &error);
  if (!text) Fail(error, kExitUsage);
  std::signal(SIGTERM, RequestStop);
  std::signal(SIGINT, RequestStop);
  Trainer trainer(*options, std::move(*text));
  bool joining = true;  // may wait for minutes; every other wait ends with the others' step
  ringway::JoinOptions join;
  join.socket_path = options->socket_path;
  join.group = options->group;
  join.wait_world = options->world;
  join.on_waiting = [](const ringway::Status& cause) {
    std::fprintf(stderr, "train_text: waiting: %s\n", (cause.ok() ? cause.text() : Describe(cause)).c_str());
  };
  join.interrupted = [&joining] { return joining && stop_requested != 0; };
  join.reconnect = std::chrono::seconds(options->reconnect_seconds);
  trainer.Join(join);
  joining = false;
  trainer.Run();
  return 0;
}

}  // namespace
}  // namespace train_text

int main(int argc, char** argv) { return train_text::Main({argv + 1, argv + argc}); }
