// The bodies of the CUDA kernels, run by lanes on a CPU: one alone, and several that wait for each other as the threads
// of a CUDA block do.
#include "daemon/staging/codec_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/kernels/codec.h"
#include "tests/daemon/kernels/adversarial.h"
#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/sanitized.h"

namespace ringway::staging {
namespace {

using Bytes = std::vector<unsigned char>;

struct LoneLane {
  unsigned index() const { return 0; }
  unsigned size() const { return 1; }
  std::int32_t Greatest(std::int32_t x) const { return x; }
  std::int32_t Least(std::int32_t x) const { return x; }
};

class ThreadLanes {
 public:
  explicit ThreadLanes(unsigned count) : values_(count), barrier_(count) {}

  class Lane {
   public:
    Lane(ThreadLanes* all, unsigned index) : all_(all), index_(index) {}
    unsigned index() const { return index_; }
    unsigned size() const { return static_cast<unsigned>(all_->values_.size()); }
    std::int32_t Greatest(std::int32_t x) const {
      return Exchange(x, [](const auto& values) { return *std::max_element(values.begin(), values.end()); });
    }
    std::int32_t Least(std::int32_t x) const {
      return Exchange(x, [](const auto& values) { return *std::min_element(values.begin(), values.end()); });
    }

   private:
    template <class F>
    std::int32_t Exchange(std::int32_t x, const F& of) const {
      all_->values_[index_] = x;
      all_->barrier_.arrive_and_wait();
      const std::int32_t out = of(all_->values_);
      all_->barrier_.arrive_and_wait();
      return out;
    }

    ThreadLanes* all_;
    unsigned index_;
  };

  template <class F>
  void Run(const F& body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < values_.size(); ++i) threads.emplace_back([&, i] { body(Lane(this, i)); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::int32_t> values_;
  std::barrier<> barrier_;
};

// A whole buffer, block by block, as a CUDA grid does.
template <Codec kCodec, class E, class Run>
void CheckOne(const Encoding& encoding, DType dtype, std::size_t count, std::uint64_t seed, const Run& run) {
  using C = typename kernels::BlockOf<kCodec>::Type;
  const Bytes values = kernels::Adversarial(dtype, count, seed);
  const kernels::Dither dither{seed, 3 * kBlockMax};
  Bytes expected(EncodedBytes(encoding, dtype, count)), wire(expected.size()), decoded(values.size()),
      out(values.size());
  kernels::EncodeOn(kernels::Isa::kScalar, encoding, dtype, expected.data(), values.data(), count, &dither);
  kernels::DecodeOn(kernels::Isa::kScalar, encoding, dtype, decoded.data(), expected.data(), count);
  const kernels::DTypeLimits limits = kernels::LimitsOf(dtype);
  run([&](const auto& lane) {
    std::size_t at = 0;
    for (std::size_t begin = 0; begin < count; begin += encoding.block) {
      const std::size_t n = std::min<std::size_t>(encoding.block, count - begin);
      const unsigned char* const from = values.data() + begin * SizeOf(dtype);
      const kernels::Stochastic random{kernels::SeedOf(dither.seed, dither.first + begin)};
      if (encoding.rounding == Rounding::kStochastic) {
        EncodeBlockBy<C, E>(lane, wire.data() + at, from, n, limits, random);
      } else {
        EncodeBlockBy<C, E>(lane, wire.data() + at, from, n, limits, ToNearest{});
      }
      DecodeBlockBy<C, E>(lane, out.data() + begin * SizeOf(dtype), expected.data() + at, n,
                          [](std::size_t, typename E::Bits bits) { return bits; });
      at += EncodedBytes(encoding, dtype, n);
    }
  });
  ASSERT_EQ(wire, expected) << NameOf(encoding) << encoding.block << ' ' << NameOf(dtype) << ' ' << count << ' '
                            << seed;
  ASSERT_EQ(out, decoded) << NameOf(encoding) << encoding.block << ' ' << NameOf(dtype) << ' ' << count << ' ' << seed;
}

template <Codec kCodec, class Run>
void Check(const std::vector<std::size_t>& counts, const Run& run) {
  std::uint64_t seed = 0;
  for (Encoding encoding : kernels::EncodingsOf(kCodec)) {
    for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic}) {
      encoding.rounding = rounding;
      for (const std::size_t count : counts) {
        CheckOne<kCodec, kernels::F32>(encoding, DType::kF32, count, ++seed, run);
        CheckOne<kCodec, kernels::F16>(encoding, DType::kF16, count, ++seed, run);
        CheckOne<kCodec, kernels::BF16>(encoding, DType::kBF16, count, ++seed, run);
      }
    }
  }
}

template <std::size_t kIndex, class Run>
void CheckIfInBlocks(const std::vector<std::size_t>& counts, const Run& run) {
  if constexpr (kCodecs[kIndex].layout.in_blocks) Check<kCodecs[kIndex].codec>(counts, run);
}

template <class Run>
void CheckAll(const std::vector<std::size_t>& counts, const Run& run) {
  [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) { (CheckIfInBlocks<kIndices>(counts, run), ...); }
  (std::make_index_sequence<kCodecCount>());
}

TEST(CodecBlocksTest, OneLaneGivesTheBytesOfTheScalarLoops) {
  CheckAll({1, 2, 31, 33, 257, 1000, 1024, 2305, 4099}, [](const auto& body) { body(LoneLane{}); });
}

TEST(CodecBlocksTest, LanesThatShareABlockGiveThemToo) {
  const std::vector<std::size_t> counts =
      kSanitized ? std::vector<std::size_t>{5, 700} : std::vector<std::size_t>{1, 5, 700, 2305};
  CheckAll(counts, [](const auto& body) {
    ThreadLanes lanes(kSanitized ? 3 : 5);
    lanes.Run(body);
  });
}

}  // namespace
}  // namespace ringway::staging
