// Speed of the kernels on every instruction set of this processor, from buffers that stay in the second-level cache.
//
// Bytes a second count one buffer of elements in memory (not both inputs, not the wire), so that a reduction, a codec
// and a plain copy compare directly: all say how fast a buffer gets through.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/kernels/codec.h"
#include "daemon/kernels/reduce.h"
#include "tests/daemon/kernels/lossy_codecs.h"

namespace ringway::kernels {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;

// Ordinary gradients: no NaN, no subnormals, in every dtype.
std::vector<unsigned char> Values(DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<unsigned char> bytes(kBufferBytes);
  std::vector<float> floats(kBufferBytes / sizeof(float));
  for (float& x : floats) x = normal(random);
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), floats.data(), bytes.size());
  } else if (dtype == DType::kF64) {
    const std::vector<double> doubles(floats.begin(), floats.begin() + kBufferBytes / sizeof(double));
    std::memcpy(bytes.data(), doubles.data(), bytes.size());
  } else {
    // Sixteen bits with a middling exponent are ordinary as f16 and bf16 too.
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      bytes[i] = static_cast<unsigned char>(random());
      bytes[i + 1] = static_cast<unsigned char>(0x38 + random() % 8);
    }
  }
  return bytes;
}

void SetRate(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(kBufferBytes));
}

void BenchReduce(benchmark::State& state, Isa isa, DType dtype, ReduceOp op) {
  const std::vector<unsigned char> a = Values(dtype, 1), b = Values(dtype, 2);
  std::vector<unsigned char> dst(kBufferBytes);
  for (auto _ : state) {
    ReduceOn(isa, dtype, op, dst.data(), a.data(), b.data(), kBufferBytes / SizeOf(dtype));
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

// A contribution to an average, added to a partial sum.
void BenchScaledSum(benchmark::State& state, Isa isa, DType dtype) {
  const std::vector<unsigned char> a = Values(dtype, 1), b = Values(dtype, 2);
  std::vector<unsigned char> dst(kBufferBytes);
  for (auto _ : state) {
    ReduceOn(isa, dtype, ReduceOp::kAvg, dst.data(), a.data(), b.data(), kBufferBytes / SizeOf(dtype), {1, 0.25});
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

void BenchFinalize(benchmark::State& state, Isa isa, DType dtype) {
  std::vector<unsigned char> dst = Values(dtype, 1);
  for (auto _ : state) {
    FinalizeOn(isa, dtype, ReduceOp::kAvg, dst.data(), kBufferBytes / SizeOf(dtype), 3);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

// Encodings of other dtypes than f32, and those that round at random, run on the active instruction set only.
struct CodecCase {
  Isa isa;
  Encoding encoding;
  DType dtype = DType::kF32;
};

void BenchEncode(benchmark::State& state, const CodecCase& one) {
  const std::vector<unsigned char> values = Values(one.dtype, 1);
  const std::size_t count = kBufferBytes / SizeOf(one.dtype);
  std::vector<unsigned char> wire(EncodedBytes(one.encoding, one.dtype, count));
  const Dither dither{1, 0};
  for (auto _ : state) {
    EncodeOn(one.isa, one.encoding, one.dtype, wire.data(), values.data(), count, &dither);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

void BenchDecode(benchmark::State& state, const CodecCase& one) {
  std::vector<unsigned char> values = Values(one.dtype, 1);
  const std::size_t count = kBufferBytes / SizeOf(one.dtype);
  std::vector<unsigned char> wire(EncodedBytes(one.encoding, one.dtype, count));
  EncodeOn(one.isa, one.encoding, one.dtype, wire.data(), values.data(), count);
  for (auto _ : state) {
    DecodeOn(one.isa, one.encoding, one.dtype, values.data(), wire.data(), count);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

// On the active instruction set only.
void BenchDecodeReduce(benchmark::State& state, Codec codec) {
  const std::vector<unsigned char> a = Values(DType::kF32, 1);
  const std::size_t count = kBufferBytes / sizeof(float);
  std::vector<unsigned char> wire(EncodedBytes(codec, DType::kF32, count)), dst(kBufferBytes);
  Encode(codec, DType::kF32, wire.data(), a.data(), count);
  for (auto _ : state) {
    DecodeReduce(codec, DType::kF32, ReduceOp::kSum, dst.data(), a.data(), wire.data(), count);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

void BenchCopy(benchmark::State& state) {
  const std::vector<unsigned char> a = Values(DType::kF32, 1);
  std::vector<unsigned char> dst(kBufferBytes);
  for (auto _ : state) {
    std::memcpy(dst.data(), a.data(), kBufferBytes);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

void RegisterCodec(const CodecCase& one, const std::string& suffix) {
  const std::string name = NameOf(one.encoding) + suffix;
  benchmark::RegisterBenchmark(("encode/" + name).c_str(), BenchEncode, one);
  benchmark::RegisterBenchmark(("decode/" + name).c_str(), BenchDecode, one);
}

void RegisterIsa(Isa isa) {
  const std::string suffix = std::string("/") + NameOf(isa);
  for (std::uint8_t d = 0; d < kDTypeCount; ++d) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      const DType dtype = static_cast<DType>(d);
      const std::string name = std::string("reduce/") + NameOf(dtype) + "/" + NameOf(op) + suffix;
      benchmark::RegisterBenchmark(name.c_str(), BenchReduce, isa, dtype, op);
    }
  }
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::string name = NameOf(dtype) + suffix;
    benchmark::RegisterBenchmark(("scaled_sum/" + name).c_str(), BenchScaledSum, isa, dtype);
    benchmark::RegisterBenchmark(("finalize/" + name).c_str(), BenchFinalize, isa, dtype);
  }
  for (const Codec codec : LossyCodecs()) RegisterCodec({.isa = isa, .encoding = codec}, suffix);
}

}  // namespace
}  // namespace ringway::kernels

int main(int argc, char** argv) {
  using namespace ringway;
  using namespace ringway::kernels;
  benchmark::RegisterBenchmark("copy", BenchCopy);
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (IsAvailable(isa)) RegisterIsa(isa);
  }
  for (const Codec codec : LossyCodecs()) {
    RegisterCodec({.isa = ActiveIsa(), .encoding = {codec, Encoding(codec).block, Rounding::kStochastic}},
                  "/stochastic");
    if (codec != Codec::kF16) RegisterCodec({.isa = ActiveIsa(), .encoding = codec, .dtype = DType::kBF16}, "/of_bf16");
    if (!HasBlocks(codec)) continue;
    RegisterCodec({.isa = ActiveIsa(), .encoding = {codec, kBlockMin}}, "/block32");
  }
  for (const CodecInfo& info : kCodecs) {
    benchmark::RegisterBenchmark((std::string("decode_reduce/") + info.name).c_str(), BenchDecodeReduce, info.codec);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
