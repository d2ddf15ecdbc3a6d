// A flood at a master's port by hand, until SIGTERM or SIGINT. See tests/bench/flood.sh.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/e2e/flood.h"

int main(int argc, char** argv) {
  std::string address, group;
  CLI::App app("Opens connections to a ringway-master by the thousand: nonsense, half hellos, storms of requests");
  app.add_option("--master", address, "HOST:PORT, numeric")->required();
  app.add_option("--group", group, "whose plan is asked for")->required();
  CLI11_PARSE(app, argc, argv);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  ringway::e2e::Flood flood(address, group);
  int signal = 0;
  (void)sigwait(&ends, &signal);
  std::printf("%zu connections opened\n", flood.opened());
}
