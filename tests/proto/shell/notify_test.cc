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
  NotifyReady();
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
  NotifyReady();
  for (const std::string& path : {std::string("relative"), std::string("/tmp/ringway-absent-socket"),
                                  "/" + std::string(500, 'x'), std::string()}) {
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    NotifyReady();
  }
}

}  // namespace
}  // namespace ringway::shell
