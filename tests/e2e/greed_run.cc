// A user who takes all that it can get of a daemon, by hand, until SIGTERM or SIGINT. See tests/bench/two_users.sh.
#include <CLI/CLI.hpp>
#include <csignal>
#include <string>

#include "tests/e2e/greed.h"

namespace {

volatile std::sig_atomic_t stopped = 0;

}  // namespace

int main(int argc, char** argv) {
  std::string socket;
  CLI::App app("Takes memory, descriptors and joins of a ringwayd that has 64 MiB and 4096 descriptors");
  app.add_option("--socket", socket, "of the daemon")->required();
  CLI11_PARSE(app, argc, argv);
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { stopped = 1; });
  ringway::e2e::Greed greed(socket);
  greed.TakeMemory();
  greed.TakeDescriptors();
  greed.JoinAndDieUntil([] { return stopped != 0; });
}
