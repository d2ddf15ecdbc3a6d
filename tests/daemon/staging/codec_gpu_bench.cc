// Codecs on a GPU: encoding, decoding and decode-reduce in device memory, and the two ways of an input to the host: its
// floats, or codes that the GPU has made of them. Bytes are the floats' in each case.
//
//   codec_gpu_bench      on a GPU
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/staging/codec_kernels.h"

namespace ringway::staging {
namespace {

constexpr std::size_t kCount = std::size_t{16} << 20;  // 64 MiB of f32
constexpr std::size_t kBytes = kCount * sizeof(float);

void Must(int error) {
  if (error == 0) return;
  std::fprintf(stderr, "codec_gpu_bench: %s\n", cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

struct Memory {
  Memory() {
    std::vector<float> random(kCount);
    std::uint32_t state = 1;
    for (float& x : random) x = static_cast<float>(static_cast<std::int32_t>(state = state * 1664525 + 1013904223));
    Must(cudaMalloc(&values, kBytes));
    Must(cudaMalloc(&sum, kBytes));
    Must(cudaMalloc(&codes, kBytes));
    Must(cudaMallocHost(&host, kBytes));
    Must(cudaMemcpy(values, random.data(), kBytes, cudaMemcpyHostToDevice));
    Must(cudaMemcpy(sum, random.data(), kBytes, cudaMemcpyHostToDevice));
  }
  void* values = nullptr;
  void* sum = nullptr;
  void* codes = nullptr;
  void* host = nullptr;  // pinned
};

Memory& Get() {
  static Memory memory;
  return memory;
}

template <typename Call>
void Measure(benchmark::State& state, const Call& call) {
  for (auto _ : state) {
    Must(call());
    Must(cudaStreamSynchronize(nullptr));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kBytes));
}

int ToHost(const void* from, std::size_t bytes) {
  return cudaMemcpyAsync(Get().host, from, bytes, cudaMemcpyDeviceToHost, nullptr);
}

void RegisterOne(const Encoding& encoding) {
  const std::string name = NameOf(encoding.codec);
  const auto add = [&name](const char* what, auto call) {
    benchmark::RegisterBenchmark((std::string(what) + "/" + name).c_str(), [call](benchmark::State& state) {
      Measure(state, call);
    })->UseRealTime();
  };
  const auto encode = [encoding] {
    return EncodeOnDevice(encoding, DType::kF32, Get().codes, Get().values, kCount, nullptr, nullptr);
  };
  add("encode", encode);
  add("decode", [encoding] { return DecodeOnDevice(encoding, DType::kF32, Get().sum, Get().codes, kCount, nullptr); });
  add("decode_reduce", [encoding] {
    return DecodeReduceOnDevice(encoding, DType::kF32, ReduceOp::kSum, Get().sum, Get().values, Get().codes, kCount,
                                nullptr);
  });
  add("encode_and_codes_to_host", [encoding, encode] {
    const int encoded = encode();
    return encoded != 0 ? encoded : ToHost(Get().codes, EncodedBytes(encoding, DType::kF32, kCount));
  });
}

}  // namespace
}  // namespace ringway::staging

int main(int argc, char** argv) {
  using namespace ringway;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "codec_gpu_bench: there is no GPU here\n");
    return 2;
  }
  (void)staging::Get();
  benchmark::RegisterBenchmark("floats_to_host", [](benchmark::State& state) {
    staging::Measure(state, [] { return staging::ToHost(staging::Get().values, staging::kBytes); });
  })->UseRealTime();
  for (std::uint32_t i = 0; i < kCodecCount; ++i) {
    const Encoding encoding = static_cast<Codec>(i);
    if (encoding.codec != Codec::kNone && IsSupported(DType::kF32, ReduceOp::kSum, encoding)) {
      staging::RegisterOne(encoding);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
