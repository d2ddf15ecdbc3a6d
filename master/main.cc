// ringway-master: the membership coordinator as a process.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/signal_set.hpp>
#include <string>

#include "master/server.h"
#include "proto/shell/log.h"
#include "proto/shell/notify.h"
#include "proto/shell/options.h"

namespace ringway {
namespace {

constexpr const char* kProgram = "ringway-master";

struct Options {
  std::string listen;
  std::string log_format = "text";
  std::string log_level = "info";
  bool insecure = false;
  ServerOptions server;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app("Tracks the membership of Ringway's groups and spreads abort signals.", kProgram);
  app.add_option("--listen", options.listen, "address to listen on, HOST:PORT; port 0 takes a free one")->required();
  app.add_option("--heartbeat-ms", options.server.coordinator.heartbeat_ms, "pause between heartbeats")
      ->capture_default_str()
      ->check(CLI::Range(10, 60000));
  app.add_option("--detect-ms", options.server.coordinator.detect_ms, "silence after which a peer is taken for dead")
      ->capture_default_str()
      ->check(CLI::Range(50, 600000));
  app.add_option("--log-format", options.log_format, "text or json")->capture_default_str();
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")->capture_default_str();
  app.add_flag("--insecure", options.insecure, "allow addresses other than loopback, unencrypted");
  shell::ParseOrExit(app, argc, argv);
  const CoordinatorOptions& coordinator = options.server.coordinator;
  if (coordinator.detect_ms < 2 * coordinator.heartbeat_ms) {
    shell::Die(kProgram, "--detect-ms " + std::to_string(coordinator.detect_ms) +
                             " is less than two heartbeats: raise it or lower --heartbeat-ms");
  }
  return options;
}

asio::ip::tcp::endpoint Resolve(asio::io_context& io, const Options& options) {
  const Result<shell::Endpoint> listen = shell::ParseEndpoint(options.listen);
  if (!listen.ok()) shell::Die(kProgram, "--listen: " + listen.status().text());
  const Status exposure = shell::CheckExposure("--listen", listen.value(), options.insecure);
  if (!exposure.ok()) shell::Die(kProgram, exposure.text());
  std::error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(listen.value().host, std::to_string(listen.value().port), error);
  if (error || found.empty()) {
    shell::Die(kProgram,
               "--listen " + options.listen + " cannot be resolved: " + error.message() + "; give an address");
  }
  return found.begin()->endpoint();
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (const Status log = shell::SetUpLog(options.log_format, options.log_level); !log.ok()) {
    shell::Die(kProgram, log.text());
  }
  asio::io_context io(1);
  Server server(io, options.server);
  if (const Status status = server.Listen(Resolve(io, options)); !status.ok()) {
    shell::Die(kProgram, "cannot listen on " + options.listen + ": " + status.text() +
                             "; stop what uses it or choose another port");
  }
  const auto address = server.address();
  shell::Log(shell::Level::kInfo, "listening",
             {{"address", shell::ToString({address.address().to_string(), address.port()})}});
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](std::error_code error, int) {
    if (!error) io.stop();
  });
  shell::NotifyReady();
  io.run();
  shell::NotifyStopping();
  shell::Log(shell::Level::kInfo, "stopped");
  return 0;
}

}  // namespace
}  // namespace ringway

int main(int argc, char** argv) { return ringway::Run(argc, argv); }
