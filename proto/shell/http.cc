#include "proto/shell/http.h"

#include <array>
#include <asio/io_context.hpp>
#include <map>
#include <set>
#include <utility>

#include "proto/bounded_connection_set.h"
#include "proto/endpoint.h"
#include "proto/shell/http_connection.h"
#include "proto/shell/http_question.h"
#include "proto/shell/log.h"
#include "proto/shell/metrics.h"
#include "proto/stream/acceptor.h"
#include "proto/stream/address.h"

namespace ringway::shell {
namespace {

constexpr int kOk = 200;
constexpr int kNotFound = 404;
constexpr int kUnavailable = 503;

constexpr std::string_view kJson = "application/json";

HttpResponsePtr ResponseOf(int code, std::string body, std::string_view content_type = kPlainText) {
  std::string head = HttpHead(code, body.size(), content_type);
  return std::make_shared<const HttpResponse>(HttpResponse{.head = std::move(head), .body = std::move(body)});
}

HttpResponsePtr ResponseOf(const Status& status) {
  return ResponseOf(status.ok() ? kOk : kUnavailable, (status.ok() ? "ok" : status.text()) + "\n");
}

}  // namespace

class HttpServer::Desk {
 public:
  Desk(HttpQuestions questions, const HttpLimits& limits, const HttpPages& pages)
      : request_time_(limits.request_time),
        sink_{.on_request = [this](HttpConnectionId id, const HttpRequest& request) { OnRequest(id, request); },
              .on_end = [this](HttpConnectionId id) { Remove(id); }},
        health_(std::make_shared<HttpQuestion>(
            loop_, limits.patience, std::move(questions.health),
            [this](const auto& to, const auto& answer) { AnswerAll(to, ResponseOf(answer.status())); })),
        status_(std::make_shared<HttpQuestion>(loop_, limits.patience, std::move(questions.status),
                                               [this](const auto& to, const auto& answer) { OnStatus(to, answer); })),
        live_(questions.live ? std::make_shared<HttpQuestion>(
                                   loop_, limits.patience, std::move(questions.live),
                                   [this](const auto& to, const auto& answer) { AnswerAll(to, Live(answer)); })
                             : nullptr),
        acceptor_(
            *loop_, [this](std::unique_ptr<net::Stream> stream) { Take(std::move(stream)); },
            [this](const std::string&) { return MakeRoom(); }) {
    for (const HttpPage& page : pages) {
      pages_[std::string(page.path)] = ResponseOf(kOk, std::string(page.body), page.content_type);
    }
  }

  ~Desk() {
    for (const auto& [id, connection] : connections_) connection->Close();
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  Status Listen(net::UniqueFd fd) { return acceptor_.Start(std::move(fd)); }
  void Run() { loop_->run(); }
  void Stop() { loop_->stop(); }

 private:
  BoundedConnectionSet& AtStage(HttpStage stage) { return by_stage_[static_cast<std::size_t>(stage)]; }

  void Take(std::unique_ptr<net::Stream> stream) {
    const HttpConnectionId id = next_id_++;
    const auto connection = std::make_shared<HttpConnection>(*loop_, id, std::move(stream), sink_);
    connections_[id] = connection;
    Enter(*connection, id);
    connection->Start(request_time_);
  }
  void Enter(const HttpConnection& connection, HttpConnectionId id) {
    BoundedConnectionSet& connections = AtStage(connection.stage());
    if (connections.size() >= kConnectionsMax) Remove(connections.Oldest());
    connections.Add(connection.source(), id);
  }
  bool MakeRoom() {
    for (const HttpStage stage : {HttpStage::kRequest, HttpStage::kStatus, HttpStage::kHealth}) {
      if (AtStage(stage).size() == 0) continue;
      Remove(AtStage(stage).Oldest());
      return true;
    }
    return false;
  }
  void Remove(HttpConnectionId id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const std::shared_ptr<HttpConnection> connection = found->second;  // may be on the call stack
    connections_.erase(found);
    AtStage(connection->stage()).Remove(connection->source(), id);
    health_->Forget(id);
    status_->Forget(id);
    if (live_ != nullptr) live_->Forget(id);
    connection->Close();
  }

  void OnRequest(HttpConnectionId id, const HttpRequest& request) {
    const std::shared_ptr<HttpConnection> connection = connections_.at(id);
    const bool is_health = request.path == "/healthz";
    AtStage(connection->stage()).Remove(connection->source(), id);
    connection->Become(is_health ? HttpStage::kHealth : HttpStage::kStatus);
    Enter(*connection, id);
    if (request.refusal != 0) return connection->Answer(ResponseOf(request.refusal, "GET and HEAD are served here\n"));
    if (is_health) return health_->Wait(id);
    if (request.path == "/metrics" || request.path == "/readyz") return status_->Wait(id);
    if (live_ != nullptr && request.path == "/live.json") return live_->Wait(id);
    const auto page = pages_.find(request.path);
    if (page != pages_.end()) return connection->Answer(page->second);
    std::string served = "/metrics, /healthz and /readyz are served here";
    for (const auto& [path, response] : pages_) served += ", and " + path;
    connection->Answer(ResponseOf(kNotFound, served + "\n"));
  }
  // Each response is made once, whatever the number of those who get it.
  void OnStatus(const std::set<HttpConnectionId>& to, const Result<std::string>& status) {
    std::map<std::string, std::set<HttpConnectionId>> by_path;
    for (const HttpConnectionId id : to) by_path[connections_.at(id)->request().path].insert(id);
    for (const auto& [path, ids] : by_path) AnswerAll(ids, path == "/metrics" ? Metrics(status) : Readiness(status));
  }
  static HttpResponsePtr Metrics(const Result<std::string>& status) {
    Result<std::string> metrics = status.ok() ? MetricsOf(status.value()) : status;
    return metrics.ok() ? ResponseOf(kOk, std::move(metrics).value()) : ResponseOf(metrics.status());
  }
  static HttpResponsePtr Live(const Result<std::string>& json) {
    return json.ok() ? ResponseOf(kOk, json.value(), kJson) : ResponseOf(json.status());
  }
  static HttpResponsePtr Readiness(const Result<std::string>& status) {
    return ResponseOf(status.ok() ? ReadinessOf(status.value()) : status.status());
  }
  void AnswerAll(const std::set<HttpConnectionId>& to, const HttpResponsePtr& response) {
    for (const HttpConnectionId id : to) connections_.at(id)->Answer(response);
  }

  const std::shared_ptr<asio::io_context> loop_ = std::make_shared<asio::io_context>(1);  // late answers hold it
  const Duration request_time_;
  const HttpConnection::Sink sink_;
  std::array<BoundedConnectionSet, kHttpStages> by_stage_;
  std::map<HttpConnectionId, std::shared_ptr<HttpConnection>> connections_;
  HttpConnectionId next_id_ = 1;
  std::map<std::string, HttpResponsePtr> pages_;
  const std::shared_ptr<HttpQuestion> health_, status_;
  const std::shared_ptr<HttpQuestion> live_;  // null: the program has no such answer
  net::Acceptor acceptor_;
};

HttpServer::HttpServer(HttpQuestions questions, const HttpLimits& limits, const HttpPages& pages)
    : desk_(std::make_unique<Desk>(std::move(questions), limits, pages)) {}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  desk_->Stop();
  thread_.join();
}

Result<std::string> HttpServer::Start(const std::string& address) {
  const auto refuse = [](const Status& why) { return Status(why.code(), "--http: " + why.text()); };
  const Result<Endpoint> where = ParseEndpoint(address);
  if (!where.ok()) return refuse(where.status());
  const Result<net::SocketAddress> resolved = net::ResolveBlocking(where.value(), true);
  if (!resolved.ok()) return refuse(resolved.status());
  Result<net::UniqueFd> listening = net::ListenTcp(resolved.value());
  if (!listening.ok()) return refuse(listening.status());
  const Result<net::SocketAddress> bound = net::LocalAddress(listening.value().get());
  if (!bound.ok()) return refuse(bound.status());
  if (const Status status = desk_->Listen(std::move(listening).value()); !status.ok()) return refuse(status);
  thread_ = std::thread([this] { desk_->Run(); });
  Log(Level::kInfo, "http", {{"address", ToString(bound.value())}});
  return ToString(bound.value());
}

}  // namespace ringway::shell
