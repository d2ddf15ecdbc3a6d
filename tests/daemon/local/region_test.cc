#include "daemon/local/region.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "tests/daemon/local/memfd.h"

namespace ringway::local {
namespace {

constexpr std::uint64_t kBytes = 64 * 1024;

TEST(RegionTest, InputAndOutputSeeTheSameMemory) {
  Region region(MakeMemfd(kBytes), kBytes);
  region.Output().value()->data()[5] = std::byte{42};
  EXPECT_EQ(region.Input().value()->data()[5], std::byte{42});
  EXPECT_NE(region.Input().value()->data(), region.Output().value()->data());
  EXPECT_EQ(region.Input().value(), region.Input().value()) << "mapped once";
}

TEST(RegionTest, WriteToTheInputMappingFaults) {
  Region region(MakeMemfd(kBytes), kBytes);
  volatile std::byte* input = region.Input().value()->data();
  const pid_t child = ::fork();
  if (child == 0) {
    // This removes a sanitizer's handler.
    std::signal(SIGSEGV, SIG_DFL);
    input[0] = std::byte{1};
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

// Returns whether the page of this address has an entry in this process's page table.
bool IsEntered(const std::byte* address) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  const net::UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  const auto page = reinterpret_cast<std::uintptr_t>(address) / static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(::pread(pagemap.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)),
            static_cast<ssize_t>(sizeof entry));
  return (entry & kPresent) != 0;
}

TEST(RegionTest, MappingEntersNoPageBeforeItIsTouched) {
  net::UniqueFd memory = MakeMemfd(kBytes);
  const std::vector<std::byte> content(kBytes, std::byte{7});
  ASSERT_EQ(::pwrite(memory.get(), content.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  Region region(std::move(memory), kBytes);
  const std::byte* input = region.Input().value()->data();
  const std::byte* output = region.Output().value()->data();
  for (const std::byte* mapped : {input, output}) {
    EXPECT_FALSE(IsEntered(mapped));
    EXPECT_EQ(*mapped, std::byte{7});
    EXPECT_TRUE(IsEntered(mapped));
  }
}

TEST(RegionTest, MappingLivesUntilTheLastKeepIsGone) {
  std::weak_ptr<const Mapping> alive;
  std::shared_ptr<const void> keep;
  {
    Region region(MakeMemfd(kBytes), kBytes);
    const auto mapping = region.Input().value();
    alive = mapping;
    keep = mapping;
  }
  ASSERT_FALSE(alive.expired());
  EXPECT_EQ(alive.lock()->data()[kBytes - 1], std::byte{0});
  keep.reset();
  EXPECT_TRUE(alive.expired());
}

TEST(RegionTest, OnlySealedMemfdsOfTheRightSizePass) {
  EXPECT_TRUE(CheckSealedMemfd(MakeMemfd(kBytes).get(), kBytes).ok());
  EXPECT_TRUE(CheckSealedMemfd(MakeMemfd(kBytes, kAllSeals | F_SEAL_WRITE).get(), kBytes).ok());
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(kBytes, 0).get(), kBytes).code(), Code::kProtocol);
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(kBytes, F_SEAL_GROW | F_SEAL_SEAL).get(), kBytes).code(), Code::kProtocol);
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(kBytes, F_SEAL_SHRINK | F_SEAL_GROW).get(), kBytes).code(), Code::kProtocol);
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(kBytes).get(), kBytes - 1).code(), Code::kProtocol);
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(kBytes).get(), kBytes + 4096).code(), Code::kProtocol);
  EXPECT_EQ(CheckSealedMemfd(MakeMemfd(0).get(), 0).code(), Code::kProtocol);
  const net::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(CheckSealedMemfd(null.get(), kBytes).code(), Code::kProtocol);
  const net::UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CheckSealedMemfd(file.get(), kBytes).code(), Code::kProtocol);
}

TEST(RegionTest, WriteSealedMemfdIsAnInputButNoResult) {
  Region region(MakeMemfd(kBytes, kAllSeals | F_SEAL_WRITE), kBytes);
  EXPECT_TRUE(region.Input().ok());
  EXPECT_FALSE(region.Output().ok());
}

}  // namespace
}  // namespace ringway::local
