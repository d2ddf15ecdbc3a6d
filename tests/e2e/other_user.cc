#include "tests/e2e/other_user.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "tests/e2e/processes.h"

namespace ringway::e2e {
namespace {

struct Pipe {
  net::UniqueFd read, write;
};

Pipe MakePipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return {net::UniqueFd(fds[0]), net::UniqueFd(fds[1])};
}

bool IsReadable(int fd, int timeout_ms) {
  pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waited, 1, timeout_ms) == 1;
}

// Runs in the child. Changing the user clears the signal at the parent's death, so that comes last.
bool Become(uid_t id, pid_t parent) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(id, id, id) == 0 && ::setresuid(id, id, id) == 0 &&
         ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
}

}  // namespace

void OtherUser::Child::Ready() const { EXPECT_EQ(::write(ready_, "r", 1), 1); }

bool OtherUser::Child::Stopped() const { return IsReadable(stop_, 0); }

OtherUser::OtherUser(uid_t id, const std::function<void(const Child&)>& work) {
  Pipe ready = MakePipe();
  Pipe stop = MakePipe();
  (void)std::fflush(nullptr);  // else the child would print it again
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ready.read.Reset();
    stop.write.Reset();
    if (!Become(id, parent)) ::_exit(2);
    work(Child(ready.write.get(), stop.read.get()));
    (void)std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  EXPECT_GT(pid_, 0);
  ready_ = std::move(ready.read);
  stop_ = std::move(stop.write);
}

// Writes to the pipe instead of closing it: users that were started later have it open, too.
void OtherUser::Stop() const { EXPECT_EQ(::write(stop_.get(), "s", 1), 1); }

OtherUser::~OtherUser() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool OtherUser::WaitUntilReady() const {
  char byte = 0;
  const int patience_ms = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  return IsReadable(ready_.get(), patience_ms) && ::read(ready_.get(), &byte, 1) == 1;
}

bool OtherUser::Succeeded() {
  std::optional<int> status;
  (void)Eventually([&] {
    int ended = 0;
    if (::waitpid(pid_, &ended, WNOHANG) == pid_) status = ended;
    return status.has_value();
  });
  if (!status) return false;
  pid_ = -1;
  return WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

}  // namespace ringway::e2e
