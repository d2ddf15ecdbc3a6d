// All ranks of one operation in one process: real schedules and executors, frames handed over in an order drawn from a
// seed.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "daemon/collective/executor.h"
#include "daemon/kernels/codec.h"
#include "proto/check.h"
#include "proto/collective/shares.h"

namespace ringway::collective {

class World {
 public:
  static constexpr std::uint64_t kSeed = 0x5eed;  // of stochastic rounding

  // `inputs[rank]` holds what SizesOf says, as bytes; `losses` as many floats, if not empty. `layouts`: by rank, of
  // kinds that HasCounts.
  World(const Descriptor& descriptor, std::vector<std::vector<std::byte>> inputs, std::uint64_t segment_bytes_max,
        bool staged = false, std::vector<std::uint32_t> shares = {}, MemoryShare* memory = nullptr,
        std::vector<std::vector<float>> losses = {}, const std::vector<Layout>& layouts = {})
      : world_(static_cast<std::uint32_t>(inputs.size())), inputs_(std::move(inputs)), losses_(std::move(losses)) {
    const Routes routes = RoutesOf(world_, std::move(shares));
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      const auto layout = layouts.empty() ? nullptr : std::make_shared<const Layout>(layouts[rank]);
      const Shape shape = layout ? ShapeOf(descriptor, *layout) : ShapeOf(descriptor, world_, Rank(rank));
      outputs_.emplace_back(shape.output.count * SizeOf(descriptor.dtype));
      Schedule schedule = MakeSchedule(descriptor.kind, descriptor.schedule, routes, Rank(rank), Rank(descriptor.root));
      if (descriptor.kind == OpKind::kAllToAllV) schedule = WithoutEmpty(std::move(schedule), *layout);
      executors_.push_back(std::make_unique<Executor>(
          Share(std::move(schedule)), ExecutorOptions{.descriptor = descriptor,
                                                      .shape = shape,
                                                      .layout = layout,
                                                      .world_size = world_,
                                                      .segment_bytes_max = segment_bytes_max,
                                                      .input = inputs_[rank].data(),
                                                      .output = outputs_[rank].data(),
                                                      .input_bytes_ready = staged ? 0 : inputs_[rank].size(),
                                                      .stamp = {Epoch(10 + rank), 100 - rank},
                                                      .seed = kSeed,
                                                      .self = Rank(rank),
                                                      .loss = losses_.empty() ? nullptr : losses_[rank].data(),
                                                      .memory = memory}));
      Work(rank);
    }
  }

  static Routes RoutesOf(std::uint32_t world, std::vector<std::uint32_t> shares = {}) {
    Routes routes{.ring = {}, .sites = {}, .shares = std::move(shares)};
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      routes.ring.emplace_back(rank);
      routes.sites.push_back(rank / 3);  // the last may be smaller
    }
    AddStrides(&routes);
    return routes;
  }

  void Stage(std::uint32_t rank, std::uint64_t bytes) {
    executors_[rank]->InputReady(bytes);
    Work(rank);
  }

  struct Frame {
    Rank from;
    Rank to;
    SegmentHeader header;
    std::vector<std::byte> payload;
  };

  // Moves everything that is ready onto the wire.
  void Send() {
    for (std::uint32_t rank = 0; rank < world_; ++rank) SendFrom(rank);
  }

  void SendFrom(std::uint32_t rank) {
    std::vector<Rank> targets;
    executors_[rank]->ForEachReady([&](Rank to) { targets.push_back(to); });
    for (const Rank to : targets) {
      while (auto ready = executors_[rank]->PopReady(to, kPayloadBytesMax)) {
        const Executor::Encoded encoded = executors_[rank]->Encode(*ready, scratch_);
        wire_.push_back({Rank(rank), to, encoded.header, {encoded.payload.begin(), encoded.payload.end()}});
      }
    }
  }

  void Deliver(const Frame& frame) {
    Executor& executor = *executors_[frame.to.value];
    auto claim = executor.Take(frame.header, frame.from);
    RINGWAY_CHECK(claim.ok());
    if (!claim.value().skipped) Accept(frame, claim.value());
  }

  void Accept(const Frame& frame, const Executor::Claim& claim) {
    Executor& executor = *executors_[frame.to.value];
    if (claim.direct != nullptr) std::memcpy(claim.direct, frame.payload.data(), frame.payload.size());
    executor.Accept(claim, frame.header, frame.payload);
    AskAgain(frame.to.value);
  }

  // Until nothing moves. Frames overtake each other as `seed` says; some are delivered twice.
  void Run(std::uint64_t seed) { RunSome(seed, ~std::uint64_t{0}); }

  // The same, but for at most so many frames.
  void RunSome(std::uint64_t seed, std::uint64_t frames) {
    RunObserved(
        seed, [](const Frame&) {}, frames);
  }

  // `observe` sees every frame just before it is delivered.
  template <typename F>
  void RunObserved(std::uint64_t seed, F observe, std::uint64_t frames = ~std::uint64_t{0}) {
    std::mt19937_64 random(seed);
    Send();
    for (; !wire_.empty() && frames > 0; --frames) {
      std::swap(wire_[random() % wire_.size()], wire_.back());
      const Frame frame = std::move(wire_.back());
      wire_.pop_back();
      observe(frame);
      Deliver(frame);
      if (random() % 4 == 0) Deliver(frame);
      SendFrom(frame.to.value);
    }
  }

  std::uint64_t asked_again() const { return asked_again_; }
  std::uint32_t world() const { return world_; }
  Executor& executor(std::uint32_t rank) { return *executors_[rank]; }
  const std::vector<std::byte>& output(std::uint32_t rank) const { return outputs_[rank]; }
  const std::vector<float>& loss(std::uint32_t rank) const { return losses_[rank]; }
  const std::vector<std::byte>& input(std::uint32_t rank) const { return inputs_[rank]; }
  std::vector<Frame>& wire() { return wire_; }

 private:
  // Works in small slices, so that other events come in between in every order.
  void Work(std::uint32_t rank) {
    while (executors_[rank]->has_work()) (void)executors_[rank]->Work(100);
    AskAgain(rank);
  }

  void AskAgain(std::uint32_t rank) {
    for (const Executor::Wanted& wanted : executors_[rank]->TakeResends()) {
      executors_[wanted.from.value]->Resend(Rank(rank), wanted.step, wanted.chunk, wanted.segment);
      SendFrom(wanted.from.value);
      ++asked_again_;
    }
  }

  // Rings for the schedule that has several, one of them without a share.
  static void AddStrides(Routes* routes) {
    const std::size_t world = routes->ring.size();
    for (std::size_t stride = 1; stride < world && routes->rings.size() < kRingsMax; ++stride) {
      if (std::gcd(stride, world) != 1) continue;
      WeightedRing& ring = routes->rings.emplace_back();
      ring.share = static_cast<std::uint32_t>(stride % 3);
      for (std::size_t i = 0; i < world; ++i) ring.order.push_back(routes->ring[i * stride % world]);
    }
  }

  std::uint32_t world_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::vector<float>> losses_;  // added to; empty: not noted
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<Frame> wire_;
  std::uint64_t asked_again_ = 0;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kPayloadBytesMax);
};

template <typename T>
std::vector<std::byte> Bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> Values(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace ringway::collective
