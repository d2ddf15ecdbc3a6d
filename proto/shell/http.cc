#include "proto/shell/http.h"

#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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
constexpr std::size_t kRequestBytesMax = 4096;
constexpr std::chrono::seconds kRequestTimeMax(5);
constexpr std::chrono::seconds kPause(1);
constexpr std::chrono::milliseconds kPoll(1);
constexpr std::chrono::milliseconds kLook(100);
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

// One request of a connection: so many bytes in all, and so much time for all of it. The library's own limits are those
// of a line that it has whole, and of a single read.
class RequestStream final : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  RequestStream(int fd, const std::atomic<bool>& is_stopping) : fd_(fd), is_stopping_(is_stopping) {}

  bool is_readable() const override { return IsReady(POLLIN); }
  bool is_writable() const override { return IsReady(POLLOUT); }
  ssize_t read(char* to, std::size_t size) override {
    if (left_ == 0 || !is_readable()) return -1;
    const ssize_t got = ::recv(fd_, to, std::min(size, left_), MSG_DONTWAIT);
    if (got > 0) left_ -= static_cast<std::size_t>(got);
    return got;
  }
  ssize_t write(const char* from, std::size_t size) override {
    return is_writable() ? ::send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}  // nobody asks
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  int socket() const override { return fd_; }

 private:
  bool IsReady(short events) const {
    while (!is_stopping_ && Clock::now() < deadline_) {
      pollfd one{.fd = fd_, .events = events, .revents = 0};
      if (::poll(&one, 1, static_cast<int>(kLook.count())) > 0) return true;
    }
    return false;
  }

  const int fd_;
  const std::atomic<bool>& is_stopping_;
  const Clock::time_point deadline_ = Clock::now() + kRequestTimeMax;
  std::size_t left_ = kRequestBytesMax;
};

}  // namespace

class HttpServer::Library final : public httplib::Server {
 public:
  void Stop() {
    is_stopping_ = true;
    stop();
  }
  bool is_stopping() const { return is_stopping_; }

 private:
  bool process_and_close_socket(int fd) override {
    RequestStream stream(fd, is_stopping_);
    bool is_closed = false;
    const bool answered = process_request(stream, true, is_closed, nullptr);
    (void)::shutdown(fd, SHUT_RDWR);
    (void)::close(fd);
    return answered;
  }

  std::atomic<bool> is_stopping_ = false;
};

HttpServer::HttpServer(AskStatus ask) : ask_(std::move(ask)), server_(std::make_unique<Library>()) {
  server_->new_task_queue = [] { return new BoundedPool; };
  // The library's own choice lets two processes share a port.
  server_->set_socket_options([](int fd) {
    const int on = 1;
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server_->set_payload_max_length(kRequestBytesMax);
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
  while (thread_.joinable() && !is_over_) {  // it may be about to listen again
    server_->Stop();
    std::this_thread::sleep_for(kPoll);
  }
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
  thread_ = std::thread([this, where] { Serve(where); });
  // Only now does it listen, which fails where another process has bound the port in the same moment.
  while (!server_->is_running() && !ended_) std::this_thread::sleep_for(kPoll);
  if (ended_) return busy;
  Log(Level::kInfo, "http", {{"address", ToString(where)}});
  return Status::Ok();
}

// The library stops where it cannot accept: no descriptor or memory is left on the host.
void HttpServer::Serve(const Endpoint& where) {
  (void)server_->listen_after_bind();
  ended_ = true;
  while (!server_->is_stopping()) {
    for (auto waited = kPoll; waited < kPause && !server_->is_stopping(); waited += kPoll) {
      std::this_thread::sleep_for(kPoll);
    }
    if (server_->is_stopping()) break;
    Log(Level::kWarning, "http_ended", {{"address", ToString(where)}, {"text", "it could not accept; it tries again"}});
    if (server_->bind_to_port(where.host, where.port)) (void)server_->listen_after_bind();
  }
  is_over_ = true;
}

}  // namespace ringway::shell
