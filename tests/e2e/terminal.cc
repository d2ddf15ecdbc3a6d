#include "tests/e2e/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "tests/e2e/processes.h"

namespace ringway::e2e {

Terminal::Terminal(const std::vector<std::string>& argv) {
  std::vector<std::string> copy = argv;
  std::vector<char*> pointers;
  for (std::string& argument : copy) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  winsize size{.ws_row = 30, .ws_col = 160, .ws_xpixel = 0, .ws_ypixel = 0};
  int here = -1, there = -1;
  if (::openpty(&here, &there, nullptr, nullptr, &size) != 0) {
    ADD_FAILURE() << "there are no pseudo terminals";
    return;
  }
  here_ = net::UniqueFd(here);
  there_ = net::UniqueFd(there);
  ::fcntl(here, F_SETFD, FD_CLOEXEC);
  ::fcntl(there, F_SETFD, FD_CLOEXEC);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setsid();
  ::ioctl(there, TIOCSCTTY, 0);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(there, fd);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

Terminal::~Terminal() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Terminal::Read() {
  pollfd readable{.fd = here_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&readable, 1, 10) > 0) {
    char bytes[4096];
    const ssize_t got = ::read(here_.get(), bytes, sizeof bytes);
    if (got <= 0) return;
    output_.append(bytes, static_cast<std::size_t>(got));
  }
}

bool Terminal::Shows(const std::string& text) {
  const bool shown = Eventually([&] {
    Read();
    return output_.find(text, seen_) != std::string::npos;
  });
  if (!shown) ADD_FAILURE() << "it does not show " << text << ", but " << output_.substr(seen_);
  return shown;
}

void Terminal::Press(const std::string& keys) {
  Read();
  seen_ = output_.size();
  EXPECT_EQ(::write(here_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

void Terminal::Signal(int signal) const { ::kill(pid_, signal); }

std::optional<int> Terminal::Wait() {
  int status = 0;
  const bool ended = Eventually([&] {
    Read();
    return pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_;
  });
  if (!ended) return std::nullopt;
  pid_ = -1;
  Read();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool Terminal::IsAsBefore() const {
  termios settings{};
  return ::tcgetattr(there_.get(), &settings) == 0 && (settings.c_lflag & ICANON) != 0 &&
         (settings.c_lflag & ECHO) != 0;
}

}  // namespace ringway::e2e
