// ringwayctl: the operator's command line.
#include <cstdio>

#include "client/ctl/query.h"
#include "client/ctl/render.h"
#include "proto/shell/options.h"

namespace ringway::ctl {
namespace {

constexpr const char* kProgram = "ringwayctl";

int Run(int argc, char** argv) {
  std::string master;
  std::string socket;
  bool as_json = false;
  int timeout_ms = 5000;
  CLI::App app("Shows the state of a Ringway master or daemon.", kProgram);
  auto* master_option = app.add_option("--master", master, "master to ask, HOST:PORT");
  auto* socket_option = app.add_option("--socket", socket, "socket of the daemon to ask");
  master_option->excludes(socket_option);
  app.add_option("--timeout-ms", timeout_ms, "how long to wait for the answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 600000));
  CLI::App* status = app.add_subcommand("status", "groups, epochs, peers, ranks, sites, ring order, counters");
  status->add_flag("--json", as_json, "print JSON");
  app.require_subcommand(1);
  shell::ParseOrExit(app, argc, argv);
  const std::chrono::milliseconds timeout(timeout_ms);
  Result<std::string> text = Status(Code::kInvalidArgument, "give --master HOST:PORT or --socket PATH");
  if (!master.empty()) {
    const Result<Endpoint> endpoint = ParseEndpoint(master);
    text = endpoint.ok() ? QueryMaster(endpoint.value(), timeout) : endpoint.status();
  } else if (!socket.empty()) {
    text = QueryDaemon(socket, timeout);
  }
  if (text.ok() && !as_json) text = Render(text.value());
  if (!text.ok()) shell::Die(kProgram, text.status().text());
  std::printf("%s%s", text.value().c_str(), as_json ? "\n" : "");
  return 0;
}

}  // namespace
}  // namespace ringway::ctl

int main(int argc, char** argv) { return ringway::ctl::Run(argc, argv); }
