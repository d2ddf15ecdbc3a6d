#include "daemon/kernels/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ringway::kernels {

#if defined(__x86_64__)
void CopyPastCaches(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  if (head > 0) std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    for (std::size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done + i)));
    }
  }
  _mm_sfence();
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}
#else
void CopyPastCaches(void* dst, const void* src, std::size_t bytes) {
  if (bytes > 0) std::memcpy(dst, src, bytes);
}
#endif

}  // namespace ringway::kernels
