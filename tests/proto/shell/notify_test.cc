#include "proto/shell/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ringway::shell {
namespace {

// Listens where $NOTIFY_SOCKET points, as systemd does.
class NotifyTest : public testing::Test {
 protected:
  void Bind(const std::string& path) {
    path_ = path;
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (path[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    ASSERT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0) << std::strerror(errno);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }

  void TearDown() override {
    ::unsetenv("NOTIFY_SOCKET");
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty() && path_[0] == '/') ::unlink(path_.c_str());
  }

  std::string Received() const {
    std::array<char, 256> buffer;
    const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    return n < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(n));
  }

  std::string path_;
  int fd_ = -1;
};

TEST_F(NotifyTest, ReadyAndStoppingReachASocketInTheFileSystem) {
  Bind("/tmp/ringway-notify-" + std::to_string(::getpid()));
  EXPECT_TRUE(NotifyReady());
  EXPECT_EQ(Received(), "READY=1");
  NotifyStopping();
  EXPECT_EQ(Received(), "STOPPING=1");
}

TEST_F(NotifyTest, AbstractSocketsWorkToo) {
  Bind("@ringway-notify-" + std::to_string(::getpid()));
  NotifyReady();
  EXPECT_EQ(Received(), "READY=1");
}

TEST_F(NotifyTest, WithoutOrWithABadSocketNothingHappens) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(NotifyReady());
  for (const std::string& path : {std::string("relative"), std::string("/tmp/ringway-absent-socket"),
                                  "/" + std::string(500, 'x'), std::string()}) {
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    EXPECT_FALSE(NotifyReady()) << path;
  }
}

class WatchdogTest : public NotifyTest {
 protected:
  void TearDown() override {
    for (const char* name : {"WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    NotifyTest::TearDown();
  }
};

TEST_F(WatchdogTest, TimeIsThatOfThisProcessAlone) {
  EXPECT_EQ(WatchdogTime(), Duration());
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  EXPECT_EQ(WatchdogTime(), std::chrono::seconds(3));
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(WatchdogTime(), std::chrono::seconds(3));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(WatchdogTime(), Duration()) << "a child of the service";
  ::unsetenv("WATCHDOG_PID");
  for (const char* odd : {"", "x", "-1", "3s"}) {
    ::setenv("WATCHDOG_USEC", odd, 1);
    EXPECT_EQ(WatchdogTime(), Duration()) << odd;
  }
}

TEST_F(WatchdogTest, HeartBeatsAgainAndAgainWhileTheLoopRuns) {
  Bind("@ringway-watchdog-" + std::to_string(::getpid()));
  ::setenv("WATCHDOG_USEC", "4000", 1);
  asio::io_context loop;
  int beats = 0;
  Heart heart(loop, [&] {
    ++beats;
    NotifyAlive();
  });
  heart.Start();
  while (beats < 5) loop.run_one();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Received(), "WATCHDOG=1");
  EXPECT_EQ(Received(), "");
}

TEST_F(WatchdogTest, HeartIsQuietWhereNobodyWaits) {
  asio::io_context loop;
  Heart heart(loop, [] { ADD_FAILURE(); });
  heart.Start();
  EXPECT_EQ(loop.run(), 0U);
}

// It runs in a process of its own, because the sockets are those from 3 on.
TEST(TakeSocketsTest, AreThoseThatWereOpenedForThisProcess) {
  const auto child = [](const std::string& pid, const std::string& count) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 || ::dup2(pair[0], 3) != 3) ::_exit(90);
    ::setenv("LISTEN_PID", (pid.empty() ? std::to_string(::getpid()) : pid).c_str(), 1);
    ::setenv("LISTEN_FDS", count.c_str(), 1);
    const auto sockets = TakeSockets();
    if (!TakeSockets().empty()) ::_exit(91);
    const bool first = !sockets.empty() && sockets.front().get() == 3;
    ::_exit(static_cast<int>(sockets.size()) * 10 + (first ? 1 : 0));
  };
  EXPECT_EXIT(child("", "1"), testing::ExitedWithCode(11), "");
  EXPECT_EXIT(child("1", "1"), testing::ExitedWithCode(0), "") << "those of another process";
  EXPECT_EXIT(child("", "0"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(child("", "many"), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ringway::shell
