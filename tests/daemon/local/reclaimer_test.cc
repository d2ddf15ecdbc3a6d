#include "daemon/local/reclaimer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <string>

#include "daemon/local/region.h"
#include "tests/daemon/local/lingering.h"
#include "tests/daemon/local/memfd.h"

namespace ringway::local {
namespace {

constexpr std::uint64_t kMappedBytes = 40 << 20;  // some pieces and a rest

// Counts them by name, because others may map an address that has become free.
std::size_t MappedMemfds() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:test") != std::string::npos) ++count;
  }
  return count;
}

std::byte* MapOne() {
  const net::UniqueFd fd = MakeMemfd(kMappedBytes);
  void* mapped = ::mmap(nullptr, kMappedBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(mapped, MAP_FAILED);
  return static_cast<std::byte*>(mapped);
}

// Freeing what a trainer's region holds may take seconds.
TEST(ReclaimerTest, ClosesRegionsThatAreRefused) {
  Lingering stuck = MakeLingering();  // keeps the reclaimer busy
  const auto reclaimer = std::make_shared<Reclaimer>();
  reclaimer->Close(std::move(stuck.sender));
  net::UniqueFd memory = MakeMemfd(4096);
  const int number = memory.get();
  Region region(std::move(memory), 4096, reclaimer);
  region.Refuse(Status(Code::kResourceExhausted, "no room"));
  EXPECT_EQ(region.fd(), -1);
  EXPECT_GE(::fcntl(number, F_GETFD), 0) << "closed on the caller's thread";
  stuck.peer.Reset();
}

TEST(ReclaimerTest, FreesAllThatItTookBeforeItEnds) {
  std::byte* data = MapOne();
  ASSERT_EQ(MappedMemfds(), 1U);
  net::UniqueFd fd = MakeMemfd(4096);
  const int number = fd.get();
  {
    Reclaimer reclaimer;
    reclaimer.Unmap(data, kMappedBytes);
    reclaimer.Close(std::move(fd));
  }
  EXPECT_EQ(MappedMemfds(), 0U);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(ReclaimerTest, MoreThanItHoldsIsFreedToo) {
  std::byte* data = MapOne();
  {
    Reclaimer reclaimer;
    for (std::uint64_t at = 0; at < kMappedBytes; at += 4096) reclaimer.Unmap(data + at, 4096);
  }
  EXPECT_EQ(MappedMemfds(), 0U);
}

TEST(ReclaimerTest, GetsTheMemoryOfARegionWhenItsLastKeepIsGone) {
  auto reclaimer = std::make_shared<Reclaimer>();
  std::weak_ptr<Reclaimer> alive = reclaimer;
  std::shared_ptr<const void> keep;
  {
    Region region(MakeMemfd(kMappedBytes), kMappedBytes, std::move(reclaimer));
    keep = region.Output().value();
    ASSERT_TRUE(region.Input().ok());
  }
  EXPECT_GE(MappedMemfds(), 1U);
  keep.reset();
  // The last mapping took the reclaimer with it, which ends when all is free.
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(MappedMemfds(), 0U);
}

}  // namespace
}  // namespace ringway::local
