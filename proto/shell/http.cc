#include "proto/shell/http.h"

#include <httplib.h>

#include <functional>
#include <semaphore>
#include <utility>

#include "proto/endpoint.h"
#include "proto/shell/log.h"
#include "proto/shell/metrics.h"

namespace ringway::shell {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kWaitingMax = 16;
constexpr std::size_t kRequestBytesMax = 1024;
constexpr time_t kSecondsMax = 5;
constexpr std::chrono::milliseconds kPoll(1);
constexpr int kOk = 200;
constexpr int kUnavailable = 503;
constexpr char kText[] = "text/plain; version=0.0.4; charset=utf-8";

void Answer(const Status& status, httplib::Response& response) {
  response.status = status.ok() ? kOk : kUnavailable;
  response.set_content((status.ok() ? "ok" : status.text()) + "\n", kText);
}

// Whoever accepts waits while many connections do: then the rest is the kernel's, whose backlog is short.
class BoundedPool final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> serve) override {
    waiting_.acquire();
    pool_.enqueue([this, serve = std::move(serve)] {
      waiting_.release();
      serve();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  std::counting_semaphore<> waiting_{kWaitingMax};
  httplib::ThreadPool pool_{kThreads};
};

}  // namespace

HttpServer::HttpServer(AskStatus ask) : ask_(std::move(ask)), server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new BoundedPool; };
  // The library's own choice lets two processes share a port.
  server_->set_socket_options([](int fd) {
    const int on = 1;
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server_->set_payload_max_length(kRequestBytesMax);
  server_->set_read_timeout(kSecondsMax);
  server_->set_write_timeout(kSecondsMax);
  server_->set_keep_alive_timeout(kSecondsMax);
  server_->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    const Result<std::string> status = ask_();
    const Result<std::string> metrics = status.ok() ? MetricsOf(status.value()) : status;
    if (!metrics.ok()) return Answer(metrics.status(), response);
    response.set_content(metrics.value(), kText);
  });
  server_->Get("/healthz",
               [this](const httplib::Request&, httplib::Response& response) { Answer(ask_().status(), response); });
  server_->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    const Result<std::string> status = ask_();
    Answer(status.ok() ? ReadinessOf(status.value()) : status.status(), response);
  });
}

HttpServer::~HttpServer() {
  server_->stop();
  if (thread_.joinable()) thread_.join();
}

Status HttpServer::Start(const std::string& address) {
  const Result<Endpoint> parsed = ParseEndpoint(address);
  if (!parsed.ok()) return {Code::kInvalidArgument, "--http: " + parsed.status().text()};
  Endpoint where = parsed.value();
  Status busy(Code::kIo, "--http: cannot listen on " + address + ": is the port free, and the address this host's?");
  if (where.port == 0) {
    const int port = server_->bind_to_any_port(where.host);
    if (port <= 0) return busy;
    where.port = static_cast<std::uint16_t>(port);
  } else if (!server_->bind_to_port(where.host, where.port)) {
    return busy;
  }
  thread_ = std::thread([this] {
    (void)server_->listen_after_bind();
    ended_ = true;
  });
  // Only now does it listen, which fails where another process has bound the port in the same moment.
  while (!server_->is_running() && !ended_) std::this_thread::sleep_for(kPoll);
  if (ended_) return busy;
  Log(Level::kInfo, "http", {{"address", ToString(where)}});
  return Status::Ok();
}

}  // namespace ringway::shell
