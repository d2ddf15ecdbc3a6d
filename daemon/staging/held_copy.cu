#include <cuda_runtime_api.h>

#include "daemon/staging/held_copy.h"

namespace ringway::staging {
namespace {

// Enough to have a PCIe link full of reads (H200: 51 GB/s, as with 128 blocks), and few of the processors.
constexpr unsigned kBlocks = 16;
constexpr unsigned kThreads = 256;
constexpr std::size_t kReadsInFlight = 4;  // of a thread

// `to` and `from` are alike modulo sizeof(Unit).
template <class Unit>
__device__ void CopyAs(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % sizeof(Unit);
  const std::size_t head = before < bytes ? before : bytes;
  const std::size_t count = (bytes - head) / sizeof(Unit);
  auto* const units = reinterpret_cast<Unit*>(to + head);
  const auto* const source = reinterpret_cast<const Unit*>(from + head);
  std::size_t i = thread;
  for (; i + (kReadsInFlight - 1) * threads < count; i += kReadsInFlight * threads) {
    Unit read[kReadsInFlight];
    for (std::size_t k = 0; k < kReadsInFlight; ++k) read[k] = source[i + k * threads];
    for (std::size_t k = 0; k < kReadsInFlight; ++k) units[i + k * threads] = read[k];
  }
  for (; i < count; i += threads) units[i] = source[i];
  const std::size_t tail = head + count * sizeof(Unit);
  if (thread < head) to[thread] = from[thread];
  if (thread < bytes - tail) to[tail + thread] = from[tail + thread];
}

__global__ void CopyHeld(const volatile HeldCopy* held) {
  const std::size_t bytes = held->bytes;
  auto* const to = static_cast<unsigned char*>(held->to);
  const auto* const from = static_cast<const unsigned char*>(held->from);
  const std::uintptr_t apart = reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (apart % sizeof(uint4) == 0) {
    CopyAs<uint4>(to, from, bytes);
  } else if (apart % sizeof(unsigned) == 0) {
    CopyAs<unsigned>(to, from, bytes);
  } else {
    CopyAs<unsigned char>(to, from, bytes);
  }
}

}  // namespace

int LoadHeldCopy() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(CopyHeld));
}

int EnqueueHeldCopy(const HeldCopy* held, CUstream_st* stream) {
  void* arguments[] = {&held};
  return cudaLaunchKernel(reinterpret_cast<const void*>(CopyHeld), dim3(kBlocks), dim3(kThreads), arguments, 0, stream);
}

}  // namespace ringway::staging
