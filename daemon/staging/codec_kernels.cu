#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "daemon/kernels/codec_math.h"
#include "daemon/kernels/elements.h"
#include "daemon/kernels/kernel_table.h"
#include "daemon/kernels/operations.h"
#include "daemon/staging/codec_blocks.h"
#include "daemon/staging/codec_kernels.h"

namespace ringway::staging {
namespace {

using kernels::BF16;
using kernels::Dither;
using kernels::F16;
using kernels::F32;
using kernels::Stochastic;

constexpr unsigned kThreads = 128;
constexpr unsigned kGridMax = 65535;

// A thread of a CUDA block. All threads of it call the same functions in the same order.
class CudaLane {
 public:
  __device__ explicit CudaLane(std::int32_t* shared) : shared_(shared) {}
  __device__ unsigned index() const { return threadIdx.x; }
  __device__ unsigned size() const { return blockDim.x; }
  __device__ std::int32_t Greatest(std::int32_t x) const {
    for (int offset = 16; offset > 0; offset /= 2) {
      const std::int32_t other = __shfl_xor_sync(0xffffffffU, x, offset);
      x = x < other ? other : x;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared_[threadIdx.x / 32] = x;
    __syncthreads();
    for (unsigned warp = 0; warp < kThreads / 32; ++warp) x = x < shared_[warp] ? shared_[warp] : x;
    return x;
  }
  __device__ std::int32_t Least(std::int32_t x) const { return ~Greatest(~x); }

 private:
  std::int32_t* const shared_;
};

struct Job {
  std::size_t count;
  std::size_t block;  // elements
  DTypeLimits limits;
  Dither dither;
};

template <class C, class E, bool kIsRandom>
__global__ void EncodeBlocks(unsigned char* wire, const unsigned char* values, Job job) {
  __shared__ std::int32_t shared[kThreads / 32];
  const CudaLane lane(shared);
  const std::size_t block_bytes = C::kHeaderBytes + job.block * C::kCodeBits / 8;
  for (std::size_t b = blockIdx.x; b * job.block < job.count; b += gridDim.x) {
    const std::size_t begin = b * job.block;
    const std::size_t n = job.count - begin < job.block ? job.count - begin : job.block;
    const unsigned char* const from = values + begin * sizeof(typename E::Bits);
    if constexpr (kIsRandom) {
      const Stochastic rounding{kernels::SeedOf(job.dither.seed, job.dither.first + begin)};
      EncodeBlockBy<C, E>(lane, wire + b * block_bytes, from, n, job.limits, rounding);
    } else {
      EncodeBlockBy<C, E>(lane, wire + b * block_bytes, from, n, job.limits, ToNearest{});
    }
  }
}

template <class C, class E, class Op>
__global__ void DecodeBlocks(unsigned char* out, const unsigned char* a, const unsigned char* wire, Job job) {
  const CudaLane lane(nullptr);
  const std::size_t block_bytes = C::kHeaderBytes + job.block * C::kCodeBits / 8;
  for (std::size_t b = blockIdx.x; b * job.block < job.count; b += gridDim.x) {
    const std::size_t begin = b * job.block;
    const std::size_t n = job.count - begin < job.block ? job.count - begin : job.block;
    const std::size_t at = begin * sizeof(typename E::Bits);
    DecodeBlockBy<C, E>(lane, out + at, wire + b * block_bytes, n, [&](std::size_t i, typename E::Bits decoded) {
      if constexpr (std::is_void_v<Op>) {
        return decoded;
      } else {
        return Op::template Apply<E>(Load<typename E::Bits>(a + at, i), decoded);
      }
    });
  }
}

// Codecs that are a floating-point format F. Runs as long as the CPU's have a seed of their own.
template <class F, class E, bool kIsRandom>
__global__ void EncodeFormat(unsigned char* wire, const unsigned char* values, Job job) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count; i += step) {
    const float x = ElementAt<E>(values, i);
    if constexpr (kIsRandom) {
      const std::size_t run = i / kBlockMax * kBlockMax;
      const Stochastic rounding{kernels::SeedOf(job.dither.seed, job.dither.first + run)};
      Store(wire, i, kernels::NarrowAtRandom(F{}, BitCast<std::uint32_t>(x), i - run, rounding));
    } else {
      Store(wire, i, F::Narrow(x));
    }
  }
}

template <class F, class E, class Op>
__global__ void DecodeFormat(unsigned char* out, const unsigned char* a, const unsigned char* wire, Job job) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count; i += step) {
    const typename E::Bits decoded = E::Narrow(F::Widen(Load<typename F::Bits>(wire, i)));
    if constexpr (std::is_void_v<Op>) {
      Store(out, i, decoded);
    } else {
      Store(out, i, Op::template Apply<E>(Load<typename E::Bits>(a, i), decoded));
    }
  }
}

// ---------------------------------------------------------------------------------------------- dispatch

// Calls f with the codec as a constant and the dtype's element type; kNone has no kernels.
template <class F>
int WithTypes(Codec codec, DType dtype, const F& f) {
  const auto with_codec = [&]<Codec kCodec>() -> int {
    if (dtype == DType::kF16) return f.template operator()<kCodec, F16>();
    if (dtype == DType::kBF16) return f.template operator()<kCodec, BF16>();
    return f.template operator()<kCodec, F32>();
  };
  int result = cudaErrorInvalidValue;
  const auto try_each = [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    ((codec == kCodecs[kIndices + 1].codec
          ? static_cast<void>(result = with_codec.template operator()<kCodecs[kIndices + 1].codec>())
          : static_cast<void>(0)),
     ...);
  };
  try_each(std::make_index_sequence<kCodecCount - 1>());
  return result;
}

unsigned GridOf(std::size_t parts) { return static_cast<unsigned>(parts < kGridMax ? parts : kGridMax); }

template <class Op>
int Decoded(const Encoding& encoding, DType dtype, void* out, const void* a, const void* wire, std::size_t count,
            StreamHandle stream) {
  if (count == 0) return cudaSuccess;
  const Job job{count, encoding.block, {}, {}};
  auto* const to = static_cast<unsigned char*>(out);
  const auto* const left = static_cast<const unsigned char*>(a);
  const auto* const from = static_cast<const unsigned char*>(wire);
  return WithTypes(encoding.codec, dtype, [&]<Codec kCodec, class E>() -> int {
    if constexpr (HasBlocks(kCodec)) {
      DecodeBlocks<typename kernels::BlockOf<kCodec>::Type, E, Op>
          <<<GridOf((count + job.block - 1) / job.block), kThreads, 0, stream>>>(to, left, from, job);
    } else {
      DecodeFormat<typename kernels::FormatOf<kCodec>::Type, E, Op>
          <<<GridOf((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(to, left, from, job);
    }
    return cudaGetLastError();
  });
}

}  // namespace

int EncodeOnDevice(const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
                   const Dither* dither, StreamHandle stream) {
  if (count == 0) return cudaSuccess;
  const bool random = encoding.rounding == Rounding::kStochastic && dither != nullptr;
  const Job job{count, encoding.block, kernels::LimitsOf(dtype), random ? *dither : Dither{}};
  auto* const to = static_cast<unsigned char*>(wire);
  const auto* const from = static_cast<const unsigned char*>(values);
  return WithTypes(encoding.codec, dtype, [&]<Codec kCodec, class E>() -> int {
    if constexpr (HasBlocks(kCodec)) {
      using C = typename kernels::BlockOf<kCodec>::Type;
      const auto kernel = random ? EncodeBlocks<C, E, true> : EncodeBlocks<C, E, false>;
      kernel<<<GridOf((count + job.block - 1) / job.block), kThreads, 0, stream>>>(to, from, job);
    } else {
      using F = typename kernels::FormatOf<kCodec>::Type;
      const auto kernel = random ? EncodeFormat<F, E, true> : EncodeFormat<F, E, false>;
      kernel<<<GridOf((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(to, from, job);
    }
    return cudaGetLastError();
  });
}

int DecodeOnDevice(const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count,
                   StreamHandle stream) {
  return Decoded<void>(encoding, dtype, values, nullptr, wire, count, stream);
}

int DecodeReduceOnDevice(const Encoding& encoding, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                         std::size_t count, StreamHandle stream) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return Decoded<kernels::Sum>(encoding, dtype, dst, a, wire, count, stream);
    case ReduceOp::kProd:
      return Decoded<kernels::Prod>(encoding, dtype, dst, a, wire, count, stream);
    case ReduceOp::kMin:
      return Decoded<kernels::Min>(encoding, dtype, dst, a, wire, count, stream);
    case ReduceOp::kMax:
      return Decoded<kernels::Max>(encoding, dtype, dst, a, wire, count, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace ringway::staging
