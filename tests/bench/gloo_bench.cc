// Baseline: Gloo's ring all-reduce of float32 over TCP, one process a rank.
//
// All three of Gloo's rings are tried first and the fastest is measured, unless one is asked for: allreduce_ring,
// allreduce_ring_chunked, or allreduce, which is what PyTorch calls. compare.sh and wan.sh build and run this.
#include <gloo/allreduce.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/baseline.h"

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;

struct Algorithm {
  const char* name;
  std::function<void()> run;
};

// Each algorithm gets connections of its own: the older classes and allreduce() hang when they share a context.
Context Connect(const baseline::Options& options, const std::string& prefix) {
  gloo::transport::tcp::attr address;
  address.hostname = options.address;
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore files(options.store);
  gloo::rendezvous::PrefixStore store(prefix, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.world);
  context->connectFullMesh(store, device);
  return context;
}

void Sum(void* result, const void* a, const void* b, std::size_t count) { gloo::sum<float>(result, a, b, count); }

void RingAllReduce(const Context& context, const std::vector<float>& input, std::vector<float>* output) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setInput(const_cast<float*>(input.data()), input.size());
  options.setOutput(output->data(), output->size());
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&Sum));
  gloo::allreduce(options);
}

// The algorithm with the smallest time summed over ranks, so that all choose the same one.
std::size_t Fastest(const Context& context, const baseline::Options& options,
                    const std::vector<Algorithm>& algorithms) {
  baseline::Options trial = options;
  trial.warmup = 1;
  trial.iterations = 3;
  std::vector<float> own;
  for (const Algorithm& algorithm : algorithms) {
    own.push_back(static_cast<float>(baseline::Measure(trial, algorithm.run).time_ms_median));
  }
  std::vector<float> sums(own.size());
  RingAllReduce(context, own, &sums);
  return static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
}

}  // namespace

int main(int argc, char** argv) {
  const baseline::Options options = baseline::ParseOptions(argc, argv);
  const Context context = Connect(options, "allreduce");
  const std::size_t count = std::max<std::size_t>(options.bytes / sizeof(float), 1);
  std::vector<float> input(count, 1.0F);
  std::vector<float> output(count);
  // Zeros, because these two work in place and their values would grow.
  std::vector<float> in_place(count, 0.0F);
  gloo::AllreduceRing<float> ring(Connect(options, "ring"), {in_place.data()}, static_cast<int>(count));
  gloo::AllreduceRingChunked<float> chunked(Connect(options, "chunked"), {in_place.data()}, static_cast<int>(count));
  const std::vector<Algorithm> algorithms = {{"allreduce_ring", [&] { ring.run(); }},
                                             {"allreduce_ring_chunked", [&] { chunked.run(); }},
                                             {"allreduce", [&] { RingAllReduce(context, input, &output); }}};
  const auto chosen = options.algorithm.empty()
                          ? algorithms.begin() + static_cast<std::ptrdiff_t>(Fastest(context, options, algorithms))
                          : std::find_if(algorithms.begin(), algorithms.end(),
                                         [&](const Algorithm& each) { return each.name == options.algorithm; });
  if (chosen == algorithms.end()) {
    std::fprintf(stderr, "gloo_bench: no algorithm %s\n", options.algorithm.c_str());
    return 2;
  }
  const baseline::Measured measured = baseline::Measure(options, chosen->run);
  RingAllReduce(context, input, &output);
  if (output[0] != static_cast<float>(options.world)) {
    std::fprintf(stderr, "gloo_bench: the sum is wrong\n");
    return 1;
  }
  return baseline::WriteJson(options, chosen->name, measured);
}
