// A user who takes all that it can get of a daemon, by hand, until SIGTERM or SIGINT. It prints "ready" once it has its
// share of everything and only joins and dies. See tests/bench/two_users.sh.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/e2e/greed.h"

int main(int argc, char** argv) {
  std::string socket;
  CLI::App app("Takes memory, descriptors and joins of a ringwayd that has 64 MiB and 4096 descriptors");
  app.add_option("--socket", socket, "of the daemon")->required();
  CLI11_PARSE(app, argc, argv);
  // Blocked, so that they interrupt no wait for the daemon.
  sigset_t stop;
  sigemptyset(&stop);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&stop, signal);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  ringway::e2e::Greed greed(socket);
  greed.TakeMemory();
  greed.TakeDescriptors();
  (void)greed.JoinAndDieUntilThrottled();
  (void)std::puts("ready");
  (void)std::fflush(stdout);
  greed.JoinAndDieUntil([&] {
    constexpr timespec kNow{};
    return sigtimedwait(&stop, nullptr, &kNow) > 0;
  });
  return testing::Test::HasFailure() ? 1 : 0;
}
