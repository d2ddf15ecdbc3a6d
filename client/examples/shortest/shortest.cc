// The shortest correct trainer: it survives the death of peers, admits newcomers, and joins as one itself. Trains one
// weight vector towards 1; `shortest SOCKET GROUP WORLD`, until any of the trainers gets SIGTERM.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ringway/shared_state.hpp>
#include <vector>

using ringway::Code, ringway::DType, ringway::Status, ringway::ReduceOp, ringway::Session, ringway::SharedState;

constexpr std::size_t kCount = 1000;
volatile std::sig_atomic_t stop_requested = 0;

struct Model {
  std::vector<float> weights = std::vector<float>(kCount);
  float steps = 0;
};

void ComputeGradients(const Model& model, float* gradients) {
  for (std::size_t i = 0; i < kCount; ++i) gradients[i] = model.weights[i] - 1.0f;
}

void Apply(Model& model, const float* gradients) {
  for (std::size_t i = 0; i < kCount; ++i) model.weights[i] -= 0.01f * gradients[i];
  std::printf("step %.0f\n", ++model.steps);
  std::fflush(stdout);
}

// [readme]
Status Train(Session& session, SharedState& state, Model& model) {
  auto mine = session.Allocate((kCount + 1) * sizeof(float));  // shared memory: read and written without a copy
  auto mean = session.Allocate((kCount + 1) * sizeof(float));
  if (!mine.ok() || !mean.ok()) return mine.ok() ? mean.status() : mine.status();
  for (;;) {
    ComputeGradients(model, mine->as<float>());
    mine->as<float>()[kCount] = stop_requested != 0 ? 1 : 0;
    const auto sum = session.AllReduce(mine->data(), mean->data(), kCount + 1, DType::kF32, ReduceOp::kAvg);
    if (!sum.ok()) return sum.status();
    Apply(model, mean->as<float>());               // sum->world_size ranks took part: the same bytes on all
    if (mean->as<float>()[kCount] > 0) return {};  // a rank has to stop: all see it and stop here
    const auto advanced = state.Advance(session, sum->update_waits);  // admits newcomers, which fetch the state
    if (!advanced.ok()) return advanced.status();
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: %s SOCKET GROUP WORLD\n", argv[0]), 2;
  std::signal(SIGTERM, [](int) { stop_requested = stop_requested + 1; });
  bool joined = false;
  const auto give_up = [&] { return stop_requested > (joined ? 1 : 0); };  // in training the first signal is a vote
  const auto world = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const auto report = [](const Status& cause) { std::fprintf(stderr, "waiting: %s\n", cause.text().c_str()); };
  Model model;
  auto state = SharedState::Make(
      {{"weights", model.weights.data(), kCount * sizeof(float)}, {"steps", &model.steps, sizeof(model.steps)}});
  if (!state.ok()) return std::fprintf(stderr, "%s\n", state.status().text().c_str()), 1;
  auto session = state->Join(  // and fetches the state of the members
      {.socket_path = argv[1], .group = argv[2], .wait_world = world, .on_waiting = report, .interrupted = give_up});
  joined = session.ok();
  Status error = joined ? Train(**session, *state, model) : session.status();
  // Its daemon was restarted or the others had lost it: it is a newcomer with an old state.
  while (error.code() == Code::kRejoined) {
    error = state->Sync(**session).status();
    if (error.ok()) error = Train(**session, *state, model);
  }
  if (!error.ok()) return std::fprintf(stderr, "%s: %s\n", NameOf(error.code()), error.text().c_str()), 1;
  std::printf("done steps %.0f weight %a\n", model.steps, model.weights[0]);
}
// [/readme]
