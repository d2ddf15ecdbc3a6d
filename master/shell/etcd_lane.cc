#include "master/shell/etcd_lane.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <utility>

#include "proto/check.h"
#include "proto/stream/address.h"
#include "proto/stream/name_lookup.h"

namespace ringway {
namespace {

constexpr int kHttpOk = 200;
constexpr int kHttpUnauthorized = 401;
constexpr Duration kShutPeriod = std::chrono::milliseconds(20);

Duration LeftUntil(TimePoint deadline) { return std::max(deadline - MonotonicNow(), Duration(1000)); }

std::unique_ptr<httplib::ClientImpl> ClientOf(const EtcdOptions& options, const Endpoint& endpoint) {
  if (options.ca.empty()) return std::make_unique<httplib::ClientImpl>(endpoint.host, endpoint.port);
  auto client = std::make_unique<httplib::SSLClient>(endpoint.host, endpoint.port, options.cert, options.key);
  client->set_ca_cert_path(options.ca);
  client->enable_server_certificate_verification(true);
  return client;
}

}  // namespace

EtcdLane::EtcdLane(asio::io_context& io, EtcdOptions options, Duration answer_within,
                   std::function<void(const kv::Reply&)> on_reply)
    : io_(io),
      options_(std::move(options)),
      answer_within_(answer_within),
      on_reply_(std::make_shared<std::function<void(const kv::Reply&)>>(std::move(on_reply))),
      socket_(::eventfd(0, EFD_CLOEXEC)) {
  RINGWAY_CHECK(socket_.valid());
  thread_ = std::thread([this] { Run(); });
}

EtcdLane::~EtcdLane() {
  std::unique_lock lock(mutex_);
  ends_ = true;
  wake_.notify_all();
  while (!ended_) {
    wake_.wait_for(lock, kShutPeriod);
    lock.unlock();
    ShutOverdue(MonotonicNow());
    lock.lock();
  }
  lock.unlock();
  thread_.join();
}

void EtcdLane::Ask(kv::Request request) {
  const std::lock_guard lock(mutex_);
  if (jobs_.size() >= kQueueMax) {
    return Deliver({.number = request.number, .status = Status(Code::kResourceExhausted, "too many requests wait")});
  }
  jobs_.push_back({std::move(request), MonotonicNow() + answer_within_});
  wake_.notify_all();
}

void EtcdLane::Tick() { ShutOverdue(MonotonicNow()); }

// Again and again until the call ends: before it is connected, a socket cannot be shut down.
void EtcdLane::ShutOverdue(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (overdue_at_ && now >= *overdue_at_) (void)::shutdown(socket_.get(), SHUT_RDWR);
}

void EtcdLane::Deliver(kv::Reply reply) {
  asio::post(io_, [weak = std::weak_ptr(on_reply_), reply = std::move(reply)] {
    if (const auto on_reply = weak.lock()) (*on_reply)(reply);
  });
}

// ---- the thread

void EtcdLane::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) break;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Deliver(Carry(job));
    lock.lock();
  }
  ended_ = true;
  wake_.notify_all();
}

kv::Reply EtcdLane::Carry(const Job& job) {
  Result<kv::Reply> reply = MonotonicNow() < job.deadline
                                ? TryOnce(job)
                                : Result<kv::Reply>(Status(Code::kTimeout, "the requests before took too long"));
  if (reply.ok()) return std::move(reply).value();
  const Status failure(reply.status().code(), "etcd at " + Where() + ": " + reply.status().text());
  UseNext();
  return {.number = job.request.number, .status = failure};
}

Result<kv::Reply> EtcdLane::TryOnce(const Job& job) {
  const EtcdCall call = EtcdCallOf(job.request, options_.prefix);
  const std::size_t bytes_max = EtcdAnswerBytesMax(job.request);
  if (!options_.user.empty() && token_.empty()) {
    if (Status status = LogIn(job.deadline); !status.ok()) return status;
  }
  Result<Answer> answer = Post(call, bytes_max, job.deadline);
  if (answer.ok() && answer.value().http == kHttpUnauthorized && !options_.user.empty()) {  // the token has ended
    if (Status status = LogIn(job.deadline); !status.ok()) return status;
    answer = Post(call, bytes_max, job.deadline);
  }
  if (!answer.ok()) return answer.status();
  if (answer.value().http != kHttpOk) {
    return Status(Code::kIo, EtcdErrorIn(answer.value().body) + " (HTTP " + std::to_string(answer.value().http) + ")");
  }
  return EtcdReplyOf(job.request, options_.prefix, answer.value().body);
}

Status EtcdLane::LogIn(TimePoint deadline) {
  token_.clear();
  const EtcdCall call = EtcdLogin(options_.user, options_.password);
  const Result<Answer> answer = Post(call, kEtcdSmallAnswerBytesMax, deadline);
  if (!answer.ok()) return answer.status();
  if (answer.value().http != kHttpOk) {
    return {Code::kIo, "it does not take user " + options_.user + ": " + EtcdErrorIn(answer.value().body) +
                           "; correct --store-user and --store-password-file"};
  }
  Result<std::string> token = EtcdTokenIn(answer.value().body);
  if (!token.ok()) return token.status();
  token_ = std::move(token).value();
  return Status::Ok();
}

Result<std::string> EtcdLane::LookUp(TimePoint deadline) const {
  const Endpoint& endpoint = options_.endpoints[endpoint_];
  if (net::IsNumericHost(endpoint.host)) return endpoint.host;
  asio::io_context loop{1};
  const auto work = asio::make_work_guard(loop);
  Result<std::vector<net::SocketAddress>> found(Status(Code::kTimeout, "no name server answers in time"));
  net::NameLookup::Of(loop).Start(endpoint, [&](Result<std::vector<net::SocketAddress>> addresses) {
    found = std::move(addresses);
    loop.stop();
  });
  loop.run_for(LeftUntil(deadline));
  if (found.ok() && found.value().empty()) return Status(Code::kIo, "its name has no address");
  if (!found.ok()) return found.status();
  const std::string host = net::HostOf(found.value()[round_ % found.value().size()]);
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

Status EtcdLane::Dial(TimePoint deadline) {
  if (client_ != nullptr) return Status::Ok();
  const Endpoint& endpoint = options_.endpoints[endpoint_];
  Result<std::string> address = LookUp(deadline);
  if (!address.ok()) return address.status();
  client_ = ClientOf(options_, endpoint);
  client_->set_hostname_addr_map({{endpoint.host, std::move(address).value()}});
  client_->set_keep_alive(true);
  client_->set_tcp_nodelay(true);
  client_->set_decompress(false);
  client_->set_socket_options([this](int socket) { Watch(socket); });
  return Status::Ok();
}

void EtcdLane::Watch(int socket) {
  const std::lock_guard lock(mutex_);
  RINGWAY_CHECK(::dup3(socket, socket_.get(), O_CLOEXEC) == socket_.get());
}

void EtcdLane::UseNext() {
  client_.reset();
  token_.clear();
  endpoint_ = (endpoint_ + 1) % options_.endpoints.size();
  if (endpoint_ == 0) ++round_;
}

Result<EtcdLane::Answer> EtcdLane::Post(const EtcdCall& call, std::size_t bytes_max, TimePoint deadline) {
  if (Status status = Dial(deadline); !status.ok()) return status;
  const Duration left = LeftUntil(deadline);
  client_->set_connection_timeout(left);
  client_->set_read_timeout(left);
  client_->set_write_timeout(left);
  httplib::Request request;
  request.method = "POST";
  request.path = call.path;
  request.body = call.body;
  request.headers = {{"Content-Type", "application/json"}};
  if (!token_.empty()) request.headers.emplace("Authorization", token_);
  Answer answer;
  bool is_too_large = false;
  request.response_handler = [&](const httplib::Response& response) {
    answer.http = response.status;
    return true;
  };
  request.content_receiver = [&](const char* bytes, std::size_t size, std::uint64_t, std::uint64_t) {
    is_too_large = answer.body.size() + size > (answer.http == kHttpOk ? bytes_max : kEtcdSmallAnswerBytesMax);
    if (is_too_large || MonotonicNow() >= deadline) return false;
    answer.body.append(bytes, size);
    return true;
  };
  {
    const std::lock_guard lock(mutex_);
    overdue_at_ = deadline;
  }
  const httplib::Result result = client_->send(request);
  {
    const std::lock_guard lock(mutex_);
    overdue_at_.reset();
  }
  if (result) return answer;
  if (is_too_large) return Status(Code::kProtocol, "its answer is larger than any that it should give");
  // Its own timeouts end a little before.
  if (MonotonicNow() + kShutPeriod >= deadline) return Status(Code::kTimeout, "it does not answer in time");
  // Errors come with trailers, which cpp-httplib does not read.
  if (answer.http != 0 && answer.http != kHttpOk && !answer.body.empty()) return answer;
  return Status(Code::kIo, httplib::to_string(result.error()) + " error");
}

}  // namespace ringway
