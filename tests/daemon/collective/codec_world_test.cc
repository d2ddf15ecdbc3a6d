// Worlds with codecs against a scalar reference of the same order: whole chunks instead of segments, one value after
// the other as the schedules say, the codec's scalar loops.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/kernels/reduce.h"
#include "proto/collective/error_bound.h"
#include "tests/daemon/collective/numbers.h"
#include "tests/daemon/collective/world.h"
#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/sanitized.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kSegmentBytes = 4096;  // a block of 1024 f32

// Evaluates the schedules of all ranks backwards, from what a rank ends with.
class ScalarWorld {
 public:
  ScalarWorld(const Descriptor& descriptor, const std::vector<std::vector<std::byte>>& inputs)
      : descriptor_(descriptor), inputs_(inputs), world_(static_cast<std::uint32_t>(inputs.size())) {
    const Routes routes = World::RoutesOf(world_);
    for (std::uint32_t rank = 0; rank < world_; ++rank) {
      schedules_.push_back(MakeSchedule(descriptor.kind, descriptor.schedule, routes, Rank(rank)));
    }
    bounds_ = WeightedChunks(descriptor.count, schedules_[0].weights, GridElements(descriptor.codec));
  }

  std::vector<std::byte> ResultOf(std::uint32_t rank) {
    std::vector<std::byte> result;
    for (std::uint32_t chunk = 0; chunk < schedules_[rank].chunks(); ++chunk) {
      const std::vector<std::byte> part = Finished(rank, chunk);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

 private:
  using Values = std::vector<std::byte>;

  std::uint64_t CountOf(std::uint32_t chunk) const { return bounds_[chunk + 1] - bounds_[chunk]; }
  kernels::Dither DitherOf(std::uint32_t chunk, std::uint64_t whose) const {
    return {.seed = World::kSeed + whose * 0xd1342543de82ef95U, .first = bounds_[chunk]};
  }
  Values Rounded(const Values& values, std::uint32_t chunk, const kernels::Dither* dither) const {
    const std::uint64_t count = CountOf(chunk);
    std::vector<std::byte> wire(EncodedBytes(descriptor_.codec, descriptor_.dtype, count));
    Values out(values.size());
    kernels::EncodeOn(kernels::Isa::kScalar, descriptor_.codec, descriptor_.dtype, wire.data(), values.data(), count,
                      dither);
    kernels::DecodeOn(kernels::Isa::kScalar, descriptor_.codec, descriptor_.dtype, out.data(), wire.data(), count);
    return out;
  }
  Values Input(std::uint32_t rank, std::uint32_t chunk) const {
    const std::size_t size = SizeOf(descriptor_.dtype);
    const auto from = inputs_[rank].begin() + static_cast<std::ptrdiff_t>(bounds_[chunk] * size);
    return {from, from + static_cast<std::ptrdiff_t>(CountOf(chunk) * size)};
  }

  // The source of the departure that this arrival is of.
  Source SourceOf(const Arrival& arrival, Rank at) const {
    for (const Departure& departure : schedules_[arrival.from.value].departures) {
      if (departure.step == arrival.step && departure.chunk == arrival.chunk && departure.to == at)
        return departure.source;
    }
    ADD_FAILURE() << "nobody sends it";
    return {};
  }
  // Returns the values that it carries, decoded.
  Values Arrived(const Arrival& arrival, Rank at) {
    const std::uint32_t sender = arrival.from.value;
    const Source source = SourceOf(arrival, at);
    if (source == Source::kFinished) return Finished(sender, arrival.chunk);
    const Values sent = source == Source::kInput ? Input(sender, arrival.chunk) : Sum(sender, arrival.chunk);
    const kernels::Dither dither = DitherOf(arrival.chunk, sender + 1);
    return Rounded(sent, arrival.chunk, &dither);
  }

  const collective::Sum* SumOf(std::uint32_t rank, std::uint32_t chunk) const {
    for (const collective::Sum& sum : schedules_[rank].sums) {
      if (sum.chunk == chunk) return &sum;
    }
    return nullptr;
  }

  Values Sum(std::uint32_t rank, std::uint32_t chunk) {
    const Schedule& schedule = schedules_[rank];
    Values total;
    kernels::Scales scales;
    for (const std::uint32_t source : SumOf(rank, chunk)->order) {
      Values value;
      scales.b = kernels::AverageScale(world_);
      if (source != collective::Sum::kOwn) {
        value = Arrived(schedule.arrivals[source], Rank(rank));
        if (SourceOf(schedule.arrivals[source], Rank(rank)) == Source::kPartial) scales.b = 1;
      } else {
        value = Input(rank, chunk);
        const kernels::Dither dither = DitherOf(chunk, rank + 1);
        if (schedule.everyone_sums) value = Rounded(value, chunk, &dither);
      }
      if (total.empty()) {
        total = value;
        scales.a = scales.b;
      } else {
        kernels::ReduceOn(kernels::Isa::kScalar, descriptor_.dtype, descriptor_.op, total.data(), total.data(),
                          value.data(), CountOf(chunk), scales);
        scales.a = 1;
      }
    }
    return total;
  }

  Values Finished(std::uint32_t rank, std::uint32_t chunk) {
    const auto known = finished_.find({rank, chunk});
    if (known != finished_.end()) return known->second;
    Values out;
    const collective::Sum* sum = SumOf(rank, chunk);
    if (sum != nullptr && sum->finishes) {
      out = Sum(rank, chunk);
      kernels::FinalizeOn(kernels::Isa::kScalar, descriptor_.dtype, descriptor_.op, out.data(), CountOf(chunk), world_);
      const kernels::Dither dither = DitherOf(chunk, 0);
      out = Rounded(out, chunk, &dither);
    } else {
      for (const Arrival& arrival : schedules_[rank].arrivals) {
        if (arrival.chunk == chunk && !arrival.reduce) out = Arrived(arrival, Rank(rank));
      }
    }
    return finished_[{rank, chunk}] = out;
  }

  const Descriptor descriptor_;
  const std::vector<std::vector<std::byte>>& inputs_;
  const std::uint32_t world_;
  std::vector<Schedule> schedules_;
  Bounds bounds_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Values> finished_;
};

std::vector<std::vector<std::byte>> RandomInputs(DType dtype, std::uint32_t world, std::uint64_t count,
                                                 std::mt19937_64& random) {
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 8) - 4);
    }
    inputs.push_back(ElementsOf(dtype, values));
  }
  return inputs;
}

Encoding RandomEncoding(Codec codec, std::mt19937_64& random) {
  const std::vector<Encoding> all = kernels::EncodingsOf(codec);
  Encoding encoding = all[random() % all.size()];
  if (random() % 2 == 0) encoding.rounding = Rounding::kStochastic;
  return encoding;
}

Descriptor RandomDescriptor(Codec codec, Algorithm algorithm, std::uint64_t count, std::mt19937_64& random) {
  constexpr DType kDTypes[] = {DType::kF16, DType::kBF16, DType::kF32};
  Descriptor descriptor{OpKind::kAllReduce,
                        kDTypes[random() % 3],
                        static_cast<ReduceOp>(random() % kReduceOpCount),
                        RandomEncoding(codec, random),
                        algorithm,
                        count};
  if (!IsSupported(descriptor.dtype, descriptor.op, descriptor.codec)) descriptor.dtype = DType::kF32;
  return descriptor;
}

class CodecWorld : public testing::TestWithParam<std::tuple<Codec, Algorithm>> {};

TEST_P(CodecWorld, EndsOnAllRanksWithTheBytesOfTheScalarReference) {
  const auto [codec, algorithm] = GetParam();
  EXPECT_TRUE(rc::check([codec = codec, algorithm = algorithm](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto world_size = *rc::gen::inRange<std::uint32_t>(2, 10);
    const auto count = *rc::gen::inRange<std::uint64_t>(0, kSanitized ? 1500 : 5000);
    const Descriptor descriptor = RandomDescriptor(codec, algorithm, count, random);
    const auto inputs = RandomInputs(descriptor.dtype, world_size, descriptor.count, random);
    World world(descriptor, inputs, kSegmentBytes, random() % 2 == 0);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) world.Stage(rank, inputs[rank].size());
    world.Run(random());
    const std::vector<std::byte> expected = ScalarWorld(descriptor, inputs).ResultOf(0);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      RC_ASSERT(world.executor(rank).complete());
      RC_ASSERT(world.output(rank) == expected);
    }
  }));
}

// A death ends the attempt at any frame: whoever was done has the result, all have their inputs, and what the others
// then do with these has nothing of the attempt in it.
TEST_P(CodecWorld, AttemptThatEndsAnywhereLeavesNothingBehind) {
  const auto [codec, algorithm] = GetParam();
  EXPECT_TRUE(rc::check([codec = codec, algorithm = algorithm](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto world_size = *rc::gen::inRange<std::uint32_t>(3, 10);
    const auto count = *rc::gen::inRange<std::uint64_t>(0, kSanitized ? 1500 : 5000);
    const Descriptor descriptor = RandomDescriptor(codec, algorithm, count, random);
    auto inputs = RandomInputs(descriptor.dtype, world_size, descriptor.count, random);
    World attempt(descriptor, inputs, kSegmentBytes);
    attempt.RunSome(random(), *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{8} * world_size * world_size));
    const std::vector<std::byte> of_all = ScalarWorld(descriptor, inputs).ResultOf(0);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      RC_ASSERT(attempt.input(rank) == inputs[rank]);
      if (attempt.executor(rank).complete()) RC_ASSERT(attempt.output(rank) == of_all);
    }
    inputs.clear();
    const auto dead = static_cast<std::uint32_t>(random() % world_size);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      if (rank != dead) inputs.push_back(attempt.input(rank));
    }
    World again(descriptor, inputs, kSegmentBytes);
    again.Run(random());
    const std::vector<std::byte> expected = ScalarWorld(descriptor, inputs).ResultOf(0);
    for (std::uint32_t rank = 0; rank < again.world(); ++rank) {
      RC_ASSERT(again.executor(rank).complete());
      RC_ASSERT(again.output(rank) == expected);
    }
  }));
}

// Ranks that feed back what was lost, with the same contributions again and again.
class FeedbackWorld {
 public:
  FeedbackWorld(const Descriptor& descriptor, std::vector<std::vector<std::byte>> gradients)
      : descriptor_(descriptor), gradients_(std::move(gradients)) {
    residuals_.assign(gradients_.size(), std::vector<float>(descriptor.count));
  }

  // Returns what one operation delivers, whose first attempt ends after so many frames.
  std::vector<std::byte> Operate(std::uint64_t seed, std::uint64_t frames = 0) {
    if (frames > 0) (void)Attempt(seed + 1, frames);
    const World world = Attempt(seed, ~std::uint64_t{0});
    for (std::uint32_t rank = 0; rank < residuals_.size(); ++rank) residuals_[rank] = world.loss(rank);
    return world.output(0);
  }
  // Returns the sum of what all ranks keep of an element.
  double Kept(std::size_t i) const {
    double kept = 0;
    for (const std::vector<float>& residual : residuals_) kept += static_cast<double>(residual[i]);
    return kept;
  }

 private:
  World Attempt(std::uint64_t seed, std::uint64_t frames) const {
    std::vector<std::vector<std::byte>> inputs;
    std::vector<std::vector<float>> losses;
    for (std::size_t rank = 0; rank < gradients_.size(); ++rank) {
      kernels::AddResidual(descriptor_.dtype, inputs.emplace_back(gradients_[rank].size()).data(),
                           losses.emplace_back(descriptor_.count).data(), gradients_[rank].data(),
                           residuals_[rank].data(), descriptor_.count);
    }
    World world(descriptor_, inputs, kSegmentBytes, false, {}, nullptr, losses);
    world.RunSome(seed, frames);
    return world;
  }

  const Descriptor descriptor_;
  const std::vector<std::vector<std::byte>> gradients_;
  std::vector<std::vector<float>> residuals_;
};

// The sum of what all operations delivered and what the ranks keep equals what was contributed: nothing is lost for
// good, at any hop, nor by an attempt that ended somewhere.
TEST_P(CodecWorld, WithErrorFeedbackNothingIsLostForGood) {
  const auto [codec, algorithm] = GetParam();
  constexpr std::uint64_t kCount = 3000;
  constexpr int kRounds = kSanitized ? 4 : 12;
  for (const std::uint32_t world_size : {1u, 2u, 3u, 6u}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      std::mt19937_64 random(world_size);
      Encoding encoding(codec);
      if (world_size == 3) encoding.rounding = Rounding::kStochastic;
      const Descriptor descriptor{OpKind::kAllReduce, DType::kF32, op, encoding, algorithm, kCount};
      const auto gradients = RandomInputs(DType::kF32, world_size, kCount, random);
      FeedbackWorld world(descriptor, gradients);
      std::vector<double> contributed(kCount), delivered(kCount);
      for (const auto& gradient : gradients) {
        const std::vector<float> values = Values<float>(gradient);
        for (std::uint64_t i = 0; i < kCount; ++i) contributed[i] += kRounds * static_cast<double>(values[i]);
      }
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<float> result = Values<float>(world.Operate(random(), random() % 30));
        for (std::uint64_t i = 0; i < kCount; ++i)
          delivered[i] += static_cast<double>(result[i]) * (op == ReduceOp::kAvg ? world_size : 1);
      }
      double largest = 0, kept = 0;
      for (const double each : delivered) largest = std::max(largest, std::fabs(each));
      for (std::uint64_t i = 0; i < kCount; ++i) {
        // Only f32's own rounding is left.
        ASSERT_NEAR(delivered[i] + world.Kept(i), contributed[i], largest * 0x1p-18)
            << i << " world " << world_size << NameOf(op);
        kept = std::max(kept, std::fabs(world.Kept(i)));
      }
      EXPECT_EQ(kept > largest * 0x1p-18, world_size > 1) << "no rounding to feed back";
    }
  }
}

// A residual is many times what is added to it, and has to grow all the same.
TEST(FeedbackOfHalves, SmallGradientsBesideLargeOnesArrive) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    constexpr int kRounds = kSanitized ? 2'000 : 20'000;
    constexpr double kSmall = 0x1p-13;
    std::vector<float> values(32, static_cast<float>(kSmall));
    values[0] = 1;
    const std::vector<std::byte> gradient = ElementsOf(dtype, values);
    const Descriptor descriptor{OpKind::kAllReduce, dtype, ReduceOp::kSum, {Codec::kInt4, kBlockMin},
                                Algorithm::kRing,   32};
    FeedbackWorld world(descriptor, {gradient, gradient});
    double delivered = 0;
    for (int round = 0; round < kRounds; ++round) delivered += NumbersOf(dtype, world.Operate(1))[5];
    EXPECT_NEAR(delivered, 2 * kSmall * kRounds, 0.6) << NameOf(dtype) << ": more than two steps of the codec";
  }
}

double Exactly(const Descriptor& descriptor, const std::vector<std::vector<double>>& inputs, std::size_t i) {
  double out = inputs[0][i];
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    const double x = inputs[rank][i];
    out = descriptor.op == ReduceOp::kMin   ? std::min(out, x)
          : descriptor.op == ReduceOp::kMax ? std::max(out, x)
                                            : out + x;
  }
  return descriptor.op == ReduceOp::kAvg ? out / static_cast<double>(inputs.size()) : out;
}

TEST_P(CodecWorld, IsNoFurtherFromExactArithmeticThanItsBound) {
  const auto [codec, algorithm] = GetParam();
  double closest = 0;
  for (std::uint64_t seed = 0; seed < TurnsOf(40); ++seed) {
    std::mt19937_64 random(seed);
    constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax};
    constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
    Descriptor descriptor{
        OpKind::kAllReduce, kDTypes[seed % 3], kOps[seed / 3 % 4], RandomEncoding(codec, random), algorithm, 1500};
    if (!IsSupported(descriptor.dtype, descriptor.op, descriptor.codec)) descriptor.dtype = DType::kF32;
    const auto world_size = static_cast<std::uint32_t>(2 + random() % 7);
    // Ends of a block and ties: as far from the codes as can be, and alike on all ranks, so that errors add up.
    std::vector<float> values(descriptor.count);
    for (float& value : values) {
      value = random() % 4 == 0 ? 1.0F : static_cast<float>(random() % 33) / 34.0F;
      if (random() % 3 == 0) value = std::uniform_real_distribution<float>(-1, 1)(random);
    }
    const std::vector<std::byte> input = ElementsOf(descriptor.dtype, values);
    World world(descriptor, std::vector<std::vector<std::byte>>(world_size, input), kSegmentBytes);
    world.Run(random());
    const double bound =
        ErrorBound(TransfersOf(descriptor.kind, algorithm, World::RoutesOf(world_size)), descriptor, world_size);
    const std::vector<double> got = NumbersOf(descriptor.dtype, world.output(0));
    const std::vector<std::vector<double>> inputs(world_size, NumbersOf(descriptor.dtype, input));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::fabs(got[i] - Exactly(descriptor, inputs, i));
      ASSERT_LE(error, bound) << seed << ' ' << i << " world " << world_size << ' ' << NameOf(descriptor.op);
      closest = std::max(closest, error / bound);
    }
  }
  EXPECT_GT(closest, 0.2) << "it promises far less than it keeps";
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecWorld,
                         testing::Combine(testing::ValuesIn(kernels::LossyCodecs()),
                                          testing::Values(Algorithm::kRing, Algorithm::kTwoRings, Algorithm::kRings,
                                                          Algorithm::kDirect, Algorithm::kOneShot, Algorithm::kTree,
                                                          Algorithm::kHalvingDoubling, Algorithm::kNaive,
                                                          Algorithm::kHierarchical)),
                         [](const auto& test) {
                           return std::string(NameOf(std::get<0>(test.param))) + "_" + NameOf(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace ringway::collective
