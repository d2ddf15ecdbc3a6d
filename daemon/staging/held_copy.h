// A copy that is enqueued on a stream before its result is known (cuda_holds.h). The host writes source, destination
// and size into pinned memory that it shares with the device; then the kernel on the stream copies.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace ringway::staging {

struct alignas(64) HeldCopy {
  // Written by the host before `released`; the device reads them after it.
  void* to = nullptr;
  const void* from = nullptr;  // as the device sees it
  std::size_t bytes = 0;       // 0: there is nothing to copy
  std::uint32_t released = 0;
  // Written by the device: how far the stream is.
  std::uint32_t began = 0;
  std::uint32_t passed = 0;
};

// Both return a cudaError_t. The first loads the kernel for the current device, which may wait for what runs there.
int LoadHeldCopy();
// Copies as `held` says when the stream comes there. Any alignment.
int EnqueueHeldCopy(const HeldCopy* held, CUstream_st* stream);

}  // namespace ringway::staging
