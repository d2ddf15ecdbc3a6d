// ringway-master: the membership coordinator as a process.
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "master/shell/page/pages.h"
#include "master/shell/price_file.h"
#include "master/shell/server.h"
#include "master/shell/store_options.h"
#include "proto/byte_size.h"
#include "proto/shell/http.h"
#include "proto/shell/log.h"
#include "proto/shell/notify.h"
#include "proto/shell/options.h"
#include "proto/shell/places.h"
#include "proto/shell/tls_keeper.h"
#include "proto/shell/tls_options.h"
#include "proto/stream/address.h"

namespace ringway {
namespace {

constexpr const char* kProgram = "ringway-master";

struct Options {
  std::string listen;
  StoreOptions store;
  shell::LogOptions log;
  shell::TlsOptions tls;
  std::string http;
  bool insecure = false;
  bool only_checks = false;
  CoordinatorOptions coordinator = {.detect_far_ms = 10'000};
};

std::string Ms(std::uint32_t ms) { return std::to_string(ms) + " ms"; }

Pricing PricingOrExit(const std::string& file, bool prefer_cheap) {
  if (file.empty()) {
    if (prefer_cheap) shell::Die(kProgram, "--prefer cheap needs the prices: give --price FILE");
    return {};
  }
  Result<std::shared_ptr<const PriceList>> prices = ReadPriceFile(file);
  if (!prices.ok()) shell::Die(kProgram, prices.status().text());
  return {.list = std::move(prices).value(), .prefer_cheap = prefer_cheap};
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  CoordinatorOptions& coordinator = options.coordinator;
  std::vector<std::string> allow;
  std::string price, prefer = "fast";
  CLI::App app("Tracks the membership of Ringway's groups and spreads abort signals.", kProgram);
  app.add_option("--listen", options.listen, "address to listen on, HOST:PORT; port 0 takes a free one")->required();
  AddStoreOptions(app, &options.store);
  app.add_option("--heartbeat-ms", coordinator.heartbeat_ms, "pause between heartbeats")
      ->default_str(Ms(coordinator.heartbeat_ms))
      ->check(CLI::Range(10, 60000));
  app.add_option("--detect-ms", coordinator.detect_ms, "silence after which a peer is taken for dead")
      ->default_str(Ms(coordinator.detect_ms))
      ->check(CLI::Range(50, 600000));
  app.add_option("--detect-far-ms", coordinator.detect_far_ms,
                 "the same in groups with several sites, or with round trips of 10 ms and more (at least --detect-ms)")
      ->default_str(Ms(coordinator.detect_far_ms))
      ->check(CLI::Range(0, 600000));
  app.add_option("--partition-grace-ms", coordinator.partition_grace_ms,
                 "how long a recovery waits for peers where more than half of a group is not heard")
      ->default_str(Ms(coordinator.partition_grace_ms))
      ->check(CLI::Range(0, 3'600'000));
  app.add_option("--forget-ms", coordinator.forget_ms, "how long a group is remembered of which no peer is heard")
      ->default_str(Ms(coordinator.forget_ms))
      ->check(CLI::Range(1000, 7 * 24 * 3'600'000));
  app.add_option("--retained-bytes", coordinator.retained_bytes_max,
                 "up to this size a rank far from others succeeds without waiting until all hold the result")
      ->transform(shell::Bytes(std::uint64_t{64} << 10, std::uint64_t{64} << 20))
      ->type_name("SIZE")
      ->default_str(BytesText(coordinator.retained_bytes_max));
  shell::AddLogOptions(app, &options.log);
  shell::AddTlsOptions(app, &options.tls);
  app.add_option("--http", options.http, "HOST:PORT that serves a page, /metrics, /healthz and /readyz (default: none)")
      ->check(shell::NotEmpty());
  app.add_option("--allow", allow,
                 "GROUPS=NAME,NAME...: daemons that may join groups, both with * and ?; repeatable, or with ; between "
                 "(default: any)")
      ->delimiter(';');
  app.add_option("--price", price, "TOML file with what a GB from site to site costs (default: none)")
      ->check(shell::NotEmpty());
  app.add_option("--prefer", prefer,
                 "fast, or cheap: schedules that cost less and take at most 1.1 times as long; needs --price")
      ->check(CLI::IsMember({"fast", "cheap"}))
      ->capture_default_str();
  app.add_flag("--insecure", options.insecure, "allow addresses other than loopback, unencrypted");
  shell::AddCheckConfig(app, &options.only_checks);
  shell::ParseOrExit(app, argc, argv);
  if (options.coordinator.detect_ms < 2 * options.coordinator.heartbeat_ms) {
    shell::Die(kProgram, "--detect-ms " + std::to_string(options.coordinator.detect_ms) +
                             " is less than two heartbeats: raise it or lower --heartbeat-ms");
  }
  Result<Permits> permits = Permits::Parse(allow);
  if (!permits.ok()) shell::Die(kProgram, "--allow: " + permits.status().text());
  coordinator.permits = std::move(permits).value();
  if (!coordinator.permits.none() && !options.tls.given()) {
    shell::Die(kProgram, "--allow needs certificates (--tls-dir): without them a name proves nothing");
  }
  coordinator.pricing = PricingOrExit(price, prefer == "cheap");
  if (options.insecure && options.tls.given()) shell::Die(kProgram, shell::kTlsOrInsecure);
  options.store.insecure = options.insecure;
  return options;
}

net::SocketAddress Resolve(const Options& options) {
  const Result<Endpoint> listen = ParseEndpoint(options.listen);
  if (!listen.ok()) shell::Die(kProgram, "--listen: " + listen.status().text());
  const bool allowed = options.insecure || options.tls.given();
  const Result<net::SocketAddress> address =
      shell::ResolveListen("--listen", listen.value(), allowed ? shell::Reach::kOtherHosts : shell::Reach::kThisHost);
  if (!address.ok()) shell::Die(kProgram, address.status().text());
  const Status http = shell::CheckHttpAddress(options.http, allowed ? shell::Reach::kOtherHosts : shell::Reach::kAny);
  if (!http.ok()) shell::Die(kProgram, http.text());
  return address.value();
}

// Reports what the start would find out.
void CheckPlacesOrExit(const Options& options) {
  for (const Status& status : {shell::CheckListenPlace("--listen", options.listen),
                               options.http.empty() ? Status::Ok() : shell::CheckListenPlace("--http", options.http),
                               shell::CheckLog(options.log)}) {
    if (!status.ok()) shell::Die(kProgram, status.text());
  }
}

shell::TlsSetup TlsOrExit(const Options& options) {
  Result<shell::TlsSetup> setup = shell::SetUpTls(options.tls, {.roles = {ProcessRole::kMaster}});
  if (!setup.ok()) shell::Die(kProgram, setup.status().text());
  return std::move(setup).value();
}

void LogStart(const net::SocketAddress& address, const Options& options) {
  shell::Log(shell::Level::kInfo, "listening", {{"address", ToString(address)}});
  if (options.insecure) shell::Log(shell::Level::kWarning, "insecure", {{"effect", shell::kInsecureEffect}});
}

void CheckStoreOrExit(const Options& options, const net::SocketAddress& listen) {
  if (const Status store = CheckStore(options.store); !store.ok()) shell::Die(kProgram, store.text());
  if (!IsShared(options.store) || !options.store.advertise.empty() || !net::IsWildcard(listen)) return;
  shell::Die(
      kProgram,
      "--listen " + options.listen +
          " is every address of this host; say with --advertise HOST:PORT by which one daemons reach this master");
}

std::unique_ptr<Store> StoreOrExit(asio::io_context& io, const Options& options, const Listening& at) {
  Result<std::unique_ptr<Store>> store = OpenStore(io, options.store, at);
  if (!store.ok()) shell::Die(kProgram, store.status().text());
  return std::move(store).value();
}

void StartHttpOrExit(const Options& options, asio::io_context& io, Server& server,
                     std::optional<shell::HttpServer>& http) {
  using Answer = shell::HttpQuestions::Answer;
  http.emplace(
      shell::HttpQuestions{
          .health =
              [&io](Answer answer) { asio::post(io, [answer = std::move(answer)] { answer(std::string("ok"), {}); }); },
          .status =
              [&io, &server](Answer answer) {
                asio::post(io, [&server, answer = std::move(answer)] {
                  server.AskStatus({}, [answer](std::string status) { answer(std::move(status), {}); });
                });
              },
          .live =
              [&io, &server](Answer answer) {
                asio::post(io, [&server, answer = std::move(answer)] {
                  control::StatusRequest request;
                  request.set_paths(true);
                  request.set_events(true);
                  server.AskStatus(request, [answer](std::string status) { answer(std::move(status), {}); });
                });
              }},
      shell::HttpLimits{}, page::Pages());
  if (const auto started = http->Start(options.http); !started.ok()) shell::Die(kProgram, started.status().text());
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const shell::TlsSetup tls = TlsOrExit(options);
  const net::SocketAddress address = Resolve(options);
  CheckStoreOrExit(options, address);
  if (options.only_checks) {
    CheckPlacesOrExit(options);
    shell::ExitChecked(kProgram, IsShared(options.store) ? "etcd itself was not asked" : "");
  }
  if (const Status log = shell::SetUpLog(options.log); !log.ok()) {
    shell::Die(kProgram, log.text());
  }
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding RLIMIT_FSIZE is a failed write, not death by signal
  std::signal(SIGPIPE, SIG_IGN);  // likewise a connection that the other end has closed
  asio::io_context io(1);
  Result<net::UniqueFd> listening = net::ListenTcp(address);
  if (!listening.ok()) shell::Die(kProgram, listening.status().text());
  const Result<net::SocketAddress> bound = net::LocalAddress(listening.value().get());
  ServerOptions server_options;
  server_options.coordinator = options.coordinator;
  server_options.coordinator.names_proven = tls.security != nullptr;
  server_options.security = tls.security;
  server_options.insecure = options.insecure;
  if (!bound.ok()) shell::Die(kProgram, bound.status().text());
  asio::signal_set signals(io, SIGTERM, SIGINT);
  server_options.store = StoreOrExit(io, options, {.wanted_port = address.port(), .address = ToString(bound.value())});
  Server server(io, std::move(server_options));
  const Status started = server.Start(std::move(listening).value());
  if (!started.ok()) shell::Die(kProgram, started.text());
  LogStart(bound.value(), options);
  std::optional<shell::TlsKeeper> keeper;
  if (tls.security != nullptr) {
    keeper.emplace(io, tls).Start();
  } else if (shell::HasTerminal()) {
    signals.add(SIGHUP);
  } else {
    std::signal(SIGHUP, SIG_IGN);  // there is nothing to read again
  }
  signals.async_wait([&io](std::error_code error, int) {
    if (!error) io.stop();
  });
  std::optional<shell::HttpServer> http;
  if (!options.http.empty()) StartHttpOrExit(options, io, server, http);
  shell::NotifyReady();
  shell::Heart heart(io, shell::NotifyAlive);
  heart.Start();
  io.run();
  shell::NotifyStopping();
  shell::Log(shell::Level::kInfo, "stopped");
  return 0;
}

}  // namespace
}  // namespace ringway

int main(int argc, char** argv) {
  return ringway::shell::RunOrDie(ringway::kProgram, [&] { return ringway::Run(argc, argv); });
}
