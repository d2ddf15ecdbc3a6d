#include "daemon/local/reclaimer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>

#include "daemon/local/region.h"
#include "tests/daemon/local/memfd.h"

namespace ringway::local {
namespace {

constexpr std::uint64_t kBytes = 40 << 20;  // some pieces and a rest
constexpr std::uint64_t kStrideBytes = 1 << 20;

// REQUIRES: the beginning of a page.
bool IsMapped(const std::byte* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<std::byte*>(address), 1, &resident) == 0;
}

bool IsMappedAnywhere(const std::byte* data) {
  for (std::uint64_t at = 0; at < kBytes; at += kStrideBytes) {
    if (IsMapped(data + at)) return true;
  }
  return false;
}

TEST(ReclaimerTest, FreesAllThatItTookBeforeItEnds) {
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto* data = static_cast<const std::byte*>(mapped);
  net::UniqueFd fd = MakeMemfd(4096);
  const int number = fd.get();
  {
    Reclaimer reclaimer;
    reclaimer.Unmap(mapped, kBytes);
    reclaimer.Close(std::move(fd));
  }
  EXPECT_FALSE(IsMappedAnywhere(data));
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(ReclaimerTest, MoreThanItHoldsIsFreedToo) {
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* data = static_cast<std::byte*>(mapped);
  {
    Reclaimer reclaimer;
    for (std::uint64_t at = 0; at < kBytes; at += 4096) reclaimer.Unmap(data + at, 4096);
  }
  EXPECT_FALSE(IsMappedAnywhere(data));
}

TEST(ReclaimerTest, GetsTheMemoryOfARegionWhenItsLastKeepIsGone) {
  auto reclaimer = std::make_shared<Reclaimer>();
  std::weak_ptr<Reclaimer> alive = reclaimer;
  const std::byte* input = nullptr;
  MemoryKeep keep;
  {
    Region region(MakeMemfd(kBytes), kBytes, std::move(reclaimer));
    keep = region.Output().value();
    input = region.Input().value()->data();
  }
  const auto* output = static_cast<const Mapping*>(keep.get())->data();
  EXPECT_TRUE(IsMapped(output));
  keep.reset();
  // The last mapping took the reclaimer with it, which ends when all is free.
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(IsMappedAnywhere(input) || IsMappedAnywhere(output));
}

}  // namespace
}  // namespace ringway::local
