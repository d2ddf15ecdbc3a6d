#include "daemon/kernels/copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ringway::kernels {
namespace {

TEST(CopyPastCaches, CopiesEveryByteAndNoOtherAtAnyAlignment) {
  constexpr std::size_t kRoom = 512;
  std::vector<std::byte> source(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
  for (std::size_t to = 0; to < 70; ++to) {
    for (std::size_t from = 0; from < 20; from += 3) {
      for (const std::size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 256}) {
        SCOPED_TRACE(std::to_string(bytes) + " from " + std::to_string(from) + " to " + std::to_string(to));
        std::vector<std::byte> target(kRoom, std::byte{0xee});
        std::vector<std::byte> wanted = target;
        for (std::size_t i = 0; i < bytes; ++i) wanted[to + i] = source[from + i];
        CopyPastCaches(target.data() + to, source.data() + from, bytes);
        ASSERT_EQ(target, wanted);
      }
    }
  }
}

}  // namespace
}  // namespace ringway::kernels
