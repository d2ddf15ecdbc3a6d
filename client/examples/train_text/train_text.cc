// A data-parallel trainer over Ringway: a character-level language model on real text. A template to copy.
//
//   train_text --socket /run/ringway/ringwayd.sock --group demo --world 4 --seconds 60 --sample-chars 400
//
// ddp: averages the gradients of all ranks at every step. Each layer's slice is submitted as soon as its backward pass
// is done, and its all-reduce overlaps with the backward pass of the earlier layers.
//
// diloco (Douillard et al.): AdamW alone for H steps, then an outer Nesterov step on the average of the ranks'
// parameter changes. The all-reduce of one round overlaps with the next, so it is applied one round late; meanwhile a
// rank goes on from the newest common parameters plus its own last change.
//
// A rank that dies only makes the world smaller: the others redistribute the text and go on. A rank that joins later, or
// rejoins after its daemon was restarted or the others had lost it, fetches the state first. SIGTERM or Ctrl-C at any
// rank ends the training at all ranks at the same step (a second one kills). At the end all hold the same bytes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <ringway/shared_state.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/train_text/model.h"
#include "client/examples/train_text/must.h"
#include "client/examples/train_text/optimizer.h"
#include "client/examples/train_text/options.h"
#include "client/examples/train_text/report.h"
#include "client/examples/train_text/text.h"

namespace train_text {
namespace {

using Clock = std::chrono::steady_clock;
using ringway::DType;
using ringway::OpResult;
using ringway::ReduceOp;

constexpr double kLearningRate = 2e-3;
constexpr double kInnerLearningRate = 5e-4;  // diloco: the outer momentum adds to it
constexpr double kWarmUpSteps = 100;
constexpr double kSecondsBetweenLines = 10;

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int signal) {
  stop_requested = 1;
  std::signal(signal, SIG_DFL);
}

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Trainer {
 public:
  Trainer(const Options& options, std::vector<std::uint8_t> text)
      : options_(options),
        text_(std::move(text)),
        shard_of_view_(text_.size()),
        count_(model_.parameter_count()),
        parameters_(count_),
        first_moment_(count_),
        second_moment_(count_) {
    if (!options.log_path.empty() && !log_.Open(options.log_path)) Fail("cannot write the log " + options.log_path);
    model_.Initialize(options.seed, parameters_.data());
    if (options.mode == Mode::kDiloco) {
      common_ = parameters_;
      momentum_.resize(count_);
    }
    state_.emplace(Must(ringway::SharedState::Make(StateTensors())));
  }

  // Joins the group and fetches its state.
  void Join(const ringway::JoinOptions& options) {
    session_ = Must(state_->Join(options));
    random_ = Random(options_.seed + 1000 * session_->peer_id());  // each rank draws its own examples
    gradient_ = Must(session_->Allocate(count_ * sizeof(float)));
    reduced_ = Must(session_->Allocate(count_ * sizeof(float)));
  }

  void Run() {
    while (!TrainToTheEnd()) Must(state_->Sync(*session_));
    Report();
    const ringway::Error left = session_->Leave();
    if (!left.ok()) Fail(Describe(left));
  }

 private:
  // Returns false if the session rejoined meanwhile: operations in flight are lost, and the others are ahead.
  bool TrainToTheEnd() {
    try {
      Train();
      return true;
    } catch (const Rejoined& rejoined) {
      std::printf("step %llu %s\n", static_cast<unsigned long long>(step_), rejoined.why.c_str());
      std::fflush(stdout);
      return false;
    }
  }

  void Train() {
    GoOnFromTheState();
    if (options_.mode == Mode::kDdp) {
      while (!Finished()) DdpStep();
    } else {
      parameters_ = common_;
      round_start_ = parameters_;
      std::fill_n(gradient_.as<float>(), count_, 0.0F);  // nothing moved yet
      while (!Finished()) DilocoRound();
      ringway::Work last = SubmitReduce(0, count_);
      Await(&last);
      NesterovStep({common_.data(), momentum_.data(), count_}, reduced_.as<float>());
      parameters_ = common_;
    }
  }

  // ---- one step of training

  void DdpStep() {
    const Clock::time_point start = Clock::now();
    std::vector<ringway::Work> works;
    DrawBatch(text_, shard(), model_.context(), options_.batch, &random_, &batch_);
    const double loss = model_.LossAndGradient(
        parameters_.data(), batch_, gradient_.as<float>(),
        [&](std::size_t offset, std::size_t count) { works.push_back(SubmitReduce(offset, count)); });
    ++step_;
    works.push_back(SubmitStatistics(loss));
    for (ringway::Work& work : works) Follow(Await(&work));
    AdamWStep({parameters_.data(), first_moment_.data(), second_moment_.data(), count_}, reduced_.as<float>(), step_,
              LearningRate(reduced_statistics_.progress));
    Log(start);
    EndStep();
  }

  void DilocoRound() {
    const Clock::time_point start = Clock::now();
    ringway::Work reduce = SubmitReduce(0, count_);  // what the previous round learned
    double loss = 0;
    local_gradient_.resize(count_);
    for (std::uint64_t i = 0; i < options_.sync_every; ++i) {
      DrawBatch(text_, shard(), model_.context(), options_.batch, &random_, &batch_);
      loss +=
          model_.LossAndGradient(parameters_.data(), batch_, local_gradient_.data(), [](std::size_t, std::size_t) {});
      AdamWStep({parameters_.data(), first_moment_.data(), second_moment_.data(), count_}, local_gradient_.data(),
                ++step_, LearningRate(Progress()));
    }
    ringway::Work statistics = SubmitStatistics(loss / static_cast<double>(options_.sync_every));
    Await(&reduce);
    Follow(Await(&statistics));
    NesterovStep({common_.data(), momentum_.data(), count_}, reduced_.as<float>());
    Log(start);
    EndStep();  // nothing is in flight here
    float* const moved = gradient_.as<float>();
    for (std::size_t i = 0; i < count_; ++i) {
      moved[i] = round_start_[i] - parameters_[i];
      round_start_[i] = parameters_[i] = common_[i] - moved[i];
    }
  }

  ringway::Work SubmitReduce(std::size_t offset, std::size_t count) {
    return Must(session_->AllReduceAsync(
        gradient_.as<float>() + offset, reduced_.as<float>() + offset, count, DType::kF32, ReduceOp::kAvg,
        {.channel = 0, .codec = options_.codec, .error_feedback = FeedbackName(offset)}));
  }

  // Names the residual of the slice that begins at `offset`: a layer's gradient, or all that was learned.
  std::string FeedbackName(std::size_t offset) const {
    return options_.error_feedback ? "from " + std::to_string(offset) : "";
  }

  // Ranks must agree on when to stop: each has its own clock, but all see the same average.
  ringway::Work SubmitStatistics(double loss) {
    // One rank that has to stop makes the average at least 1.
    statistics_ = {loss, stop_requested != 0 ? static_cast<double>(last_.world_size) : Progress()};
    return Must(session_->AllReduceAsync(&statistics_, &reduced_statistics_, 2, DType::kF64, ReduceOp::kAvg));
  }

  OpResult Await(ringway::Work* work) {
    OpResult result = Must(work->Wait());
    wire_bytes_ += result.wire_bytes;
    retries_ += result.retries;
    return result;
  }

  double Progress() const {
    const double progress = options_.steps != 0 ? static_cast<double>(step_) / static_cast<double>(options_.steps)
                                                : progress_before_ + SecondsSince(start_) / options_.seconds;
    return std::min(progress, 1.0);
  }
  bool Finished() const { return reduced_statistics_.progress >= 1 - 1e-9; }
  double LearningRate(double progress) const {
    const double rate = options_.mode == Mode::kDdp ? kLearningRate : kInnerLearningRate;
    return rate * std::min(1.0, static_cast<double>(step_) / kWarmUpSteps) * (1 - 0.95 * std::min(progress, 1.0));
  }

  // ---- newcomers

  // All ranks see the same flag in the same result, so all let newcomers in at the same place.
  void EndStep() {
    if (Finished()) return;
    header_ = {step_, reduced_statistics_.progress};
    const std::uint64_t peer = session_->peer_id();
    if (Must(state_->Advance(*session_, last_.update_waits))) GoOnFromTheState();
    // It rejoined as a newcomer: what it learned since belongs to a state that the group has left.
    if (session_->peer_id() != peer && options_.mode == Mode::kDiloco) round_start_ = parameters_ = common_;
  }

  std::vector<ringway::StateTensor> StateTensors() {
    std::vector<ringway::StateTensor> tensors = {{"header", &header_, sizeof(header_)}};
    const auto add = [&tensors](const char* name, std::vector<float>* values) {
      tensors.push_back({name, values->data(), values->size() * sizeof(float)});
    };
    if (options_.mode == Mode::kDdp) {
      add("parameters", &parameters_);
      add("first moment", &first_moment_);
      add("second moment", &second_moment_);
    } else {
      add("common parameters", &common_);
      add("momentum", &momentum_);
    }
    return tensors;
  }

  void GoOnFromTheState() {
    step_ = header_.step;
    progress_before_ = header_.progress;
    start_ = Clock::now();
    last_.epoch = session_->epoch();
    last_.rank = session_->rank();
    last_.world_size = session_->world_size();
    Follow(last_);
  }

  // Called with each result.
  void Follow(const OpResult& result) {
    last_ = result;
    if (!shard_of_view_.Follow(result.epoch, result.rank, result.world_size)) return;
    if (shard().end - shard().begin <= model_.context()) Fail("the text is too short for so many ranks; see --text");
    printed_at_ = {};
  }

  Shard shard() const { return shard_of_view_.shard(); }

  static std::span<std::byte> BytesOf(std::vector<float>* part) { return std::as_writable_bytes(std::span(*part)); }

  // ---- output

  void Log(Clock::time_point start) {
    const double weight = std::max(0.02, 1 / static_cast<double>(++logged_));
    smooth_loss_ += (reduced_statistics_.loss - smooth_loss_) * weight;
    log_.Write({step_, reduced_statistics_.loss, reduced_statistics_.progress, SecondsSince(start) * 1e3, last_.rank,
                last_.world_size, last_.epoch, retries_, wire_bytes_});
    if (SecondsSince(printed_at_) < kSecondsBetweenLines) return;
    printed_at_ = Clock::now();
    std::printf("step %llu loss %.4f world %u rank %u\n", static_cast<unsigned long long>(step_), smooth_loss_,
                last_.world_size, last_.rank);
    std::fflush(stdout);
  }

  void Report() {
    if (last_.rank == 0 && options_.sample_chars != 0) {
      const std::string prompt = "The ";  // without one, a model trained for seconds writes blanks
      const std::string sample = model_.Sample(parameters_.data(), prompt, options_.sample_chars, options_.seed);
      std::printf("sample:\n%s%s\n", prompt.c_str(), sample.c_str());
    }
    std::printf("rank %u final loss %.4f model hash %016llx\n", last_.rank, smooth_loss_,
                static_cast<unsigned long long>(HashOf(BytesOf(&parameters_))));
  }

  struct Statistics {
    double loss = 0;
    double progress = 0;
  };

  struct Header {
    std::uint64_t step = 0;
    double progress = 0;
  };

  const Options options_;
  std::unique_ptr<ringway::Session> session_;
  const std::vector<std::uint8_t> text_;
  ShardOfView shard_of_view_;
  Random random_{0};
  Model model_{Shape{}};
  const std::size_t count_;
  Batch batch_;

  std::vector<float> parameters_, first_moment_, second_moment_;
  std::vector<float> common_, momentum_, round_start_, local_gradient_;  // diloco
  Header header_;
  std::optional<ringway::SharedState> state_;  // parameters, optimizer and header_
  ringway::Buffer gradient_, reduced_;
  Statistics statistics_, reduced_statistics_;
  std::uint64_t step_ = 0;
  double progress_before_ = 0;  // at start_
  Clock::time_point start_ = Clock::now();

  OpResult last_;
  StepLog log_;
  Clock::time_point printed_at_{};  // of the last line printed
  std::uint64_t logged_ = 0, wire_bytes_ = 0, retries_ = 0;
  double smooth_loss_ = 0;
};

int Main(const std::vector<std::string>& arguments) {
  std::string error;
  const std::optional<Options> options = ParseOptions(arguments, &error);
  if (!options) FailUsage(error);
  if (options->help) {
    std::fputs(Usage().c_str(), stdout);
    return 0;
  }
  if (options->version) {
    std::puts("train_text " RINGWAY_VERSION);
    return 0;
  }
  std::optional<std::vector<std::uint8_t>> text = ReadSymbols(options->text_path, &error);
  if (!text) FailUsage(error);
  ringway::JoinOptions join;
  join.socket_path = options->socket_path;
  join.group = options->group;
  join.wait_world = options->world;
  join.on_waiting = [](const ringway::Error& cause) {
    std::fprintf(stderr, "train_text: waiting: %s\n", (cause.ok() ? cause.text() : Describe(cause)).c_str());
  };
  bool joining = true;  // may wait for minutes; every other wait ends with the others' step
  join.interrupted = [&joining] { return joining && stop_requested != 0; };
  join.reconnect = std::chrono::seconds(options->reconnect_seconds);
  std::signal(SIGTERM, RequestStop);
  std::signal(SIGINT, RequestStop);
  Trainer trainer(*options, std::move(*text));
  trainer.Join(join);
  joining = false;
  trainer.Run();
  return 0;
}

}  // namespace
}  // namespace train_text

int main(int argc, char** argv) { return train_text::Main({argv + 1, argv + argc}); }
