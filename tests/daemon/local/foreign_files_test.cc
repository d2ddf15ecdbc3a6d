#include "daemon/local/foreign_files.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/daemon/local/lingering.h"

namespace ringway::local {
namespace {

constexpr std::uint32_t kStranger = 1001;

net::UniqueFd OpenNull() { return net::UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

// Files whose close blocks until the peer goes, as one of a file system that does not answer blocks.
class ForeignFilesTest : public testing::Test {
 protected:
  bool IsFreeAgain() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (files_.HasTooMany(kStranger) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return !files_.HasTooMany(kStranger);
  }
  Lingering stuck_ = MakeLingering();
  ForeignFiles files_;
};

TEST_F(ForeignFilesTest, FilesAreClosed) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const net::UniqueFd reader(ends[0]);
  files_.Close(net::UniqueFd(ends[1]), kStranger);
  pollfd waited{.fd = reader.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&waited, 1, 60'000), 1);
  EXPECT_NE(waited.revents & POLLHUP, 0);
}

TEST_F(ForeignFilesTest, UserWhoseFilesStayOpenHasTooManyAndNoOtherHas) {
  files_.Close(std::move(stuck_.sender), kStranger);
  for (std::size_t i = 1; i < ForeignFiles::kOpenMax; ++i) {
    EXPECT_FALSE(files_.HasTooMany(kStranger));
    files_.Close(OpenNull(), kStranger);
  }
  EXPECT_TRUE(files_.HasTooMany(kStranger));
  EXPECT_FALSE(files_.HasTooMany(kStranger + 1));
  stuck_.peer.Reset();
  EXPECT_TRUE(IsFreeAgain());
}

TEST_F(ForeignFilesTest, EndWaitsForNoFile) {
  {
    ForeignFiles files;
    files.Close(std::move(stuck_.sender), kStranger);
    files.Close(OpenNull(), kStranger);
  }
  stuck_.peer.Reset();
}

}  // namespace
}  // namespace ringway::local
