// ringwayd: see daemon.h.
#include <csignal>
#include <utility>

#include "daemon/runtime/config.h"
#include "daemon/runtime/daemon.h"
#include "proto/shell/log.h"
#include "proto/shell/options.h"

namespace {

int Run(int argc, char** argv) {
  ringway::daemon::Config config = ringway::daemon::ParseConfigOrExit(argc, argv);
  const ringway::Status log = ringway::shell::SetUpLog(config.log);
  if (!log.ok()) ringway::shell::Die("ringwayd", log.text());
  std::signal(SIGPIPE, SIG_IGN);
  ringway::daemon::Daemon daemon(std::move(config));
  const ringway::Status outcome = daemon.Run();
  if (!outcome.ok()) ringway::shell::Die("ringwayd", outcome.text());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ringway::shell::RunOrDie("ringwayd", [&] { return Run(argc, argv); });
}
