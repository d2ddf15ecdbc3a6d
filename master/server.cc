#include "master/server.h"

#include <array>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <random>
#include <string>
#include <utility>

#include "master/plan_report.h"
#include "master/status.h"
#include "proto/frame_codec.h"
#include "proto/shell/log.h"

namespace ringway {
namespace {

using shell::Level;
using shell::Log;

constexpr std::chrono::milliseconds kTickPeriod{20};
constexpr Duration kGapMax = 3 * kTickPeriod;
constexpr std::size_t kStatusBytesMax = kFrameBytesMax - 1024;  // room for the message around it

CoordinatorOptions CoordinatorOptionsOf(const ServerOptions& options) {
  CoordinatorOptions coordinator = options.coordinator;
  coordinator.journaled = options.journal != nullptr;
  if (coordinator.journaled) coordinator.term = options.journal->term();
  std::random_device random;
  coordinator.instance = (static_cast<std::uint64_t>(random()) << 32) | random();
  return coordinator;
}

}  // namespace

// One connection. Kept alive by its own pending handlers; the server forgets it when it closes.
class Server::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server& server, std::uint64_t id, asio::ip::tcp::socket socket)
      : server_(server), id_(id), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void Start() {
    std::error_code ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    ArmTimer();
    Read();
  }

  void Send(const control::FromMaster& message) {
    if (closed_) return;
    if (message.ByteSizeLong() > kFrameBytesMax) return Close("a message for it exceeds the frame's maximum");
    AppendFrame(message, queue_);
    if (queue_.size() + writing_.size() > kQueueBytesMax) return Close("its output queue is full");
    if (writing_.empty()) Write();
  }

  void CloseAfterWrite() {
    if (closed_) return;
    close_after_write_ = true;
    ArmTimer();  // it may never read
    if (writing_.empty() && queue_.empty()) Close("closed by the coordinator");
  }

  void Close(const std::string& why) {
    if (std::exchange(closed_, true)) return;
    std::error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    server_.OnClosed(id_, why);
  }

  // The server goes away: nothing is reported any more.
  void Abandon() {
    closed_ = true;
    std::error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
  }

 private:
  void ArmTimer() {
    timer_.expires_after(server_.options_.hello_timeout);
    timer_.async_wait([self = shared_from_this()](std::error_code error) {
      if (!error) self->Close("no hello within its time");
    });
  }

  void Read() {
    socket_.async_read_some(asio::buffer(input_), [self = shared_from_this()](std::error_code error, std::size_t n) {
      if (self->closed_) return;
      if (error) return self->Close(error.message());
      self->OnBytes(std::as_bytes(std::span(self->input_).first(n)));
    });
  }

  void OnBytes(std::span<const std::byte> bytes) {
    if (const Status status = reader_.Feed(bytes); !status.ok()) return Close(status.text());
    while (const auto frame = reader_.Next()) {
      control::ToMaster message;
      if (const Status status = ParseFrame(*frame, message); !status.ok()) return Close(status.text());
      // Status clients may ask again, but not stay without asking.
      is_daemon_ = is_daemon_ || message.has_hello();
      if (is_daemon_ && !close_after_write_) {
        timer_.cancel();
      } else if (!close_after_write_) {
        ArmTimer();
      }
      server_.OnFrame(id_, message);
      if (closed_) return;
    }
    Read();
  }

  void Write() {
    writing_.swap(queue_);
    asio::async_write(socket_, asio::buffer(writing_), [self = shared_from_this()](std::error_code error, std::size_t) {
      if (self->closed_) return;
      if (error) return self->Close(error.message());
      self->writing_.clear();
      if (!self->queue_.empty()) return self->Write();
      if (self->close_after_write_) self->Close("closed by the coordinator");
    });
  }

  Server& server_;
  const std::uint64_t id_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  FrameReader reader_;
  std::array<char, 16 * 1024> input_;
  std::string queue_;
  std::string writing_;
  bool is_daemon_ = false;
  bool close_after_write_ = false;
  bool closed_ = false;
};

Server::Server(asio::io_context& io, ServerOptions options, asio::ip::tcp::acceptor acceptor)
    : io_(io),
      options_(std::move(options)),
      coordinator_(CoordinatorOptionsOf(options_)),
      acceptor_(std::move(acceptor)),
      tick_(io),
      retry_(io),
      clock_(kGapMax) {
  if (options_.journal != nullptr) coordinator_.Recover(options_.journal->groups(), Now());
  Accept();
  OnTick();
}

Server::~Server() {
  for (const auto& [id, session] : sessions_) session->Abandon();
}

Result<asio::ip::tcp::acceptor> Server::Listen(asio::io_context& io, const asio::ip::tcp::endpoint& endpoint) {
  asio::ip::tcp::acceptor acceptor(io);
  std::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Status(Code::kIo, error.message());
  return acceptor;
}

void Server::Accept() {
  acceptor_.async_accept([this](std::error_code error, asio::ip::tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // out of descriptors: connections wait in the backlog until some are free
      Log(Level::kWarning, "accept_failed", {{"error", error.message()}});
      retry_.expires_after(std::chrono::milliseconds(100));
      retry_.async_wait([this](std::error_code cancelled) {
        if (!cancelled) Accept();
      });
      return;
    }
    if (sessions_.size() < kConnectionsMax) {
      const std::uint64_t id = next_id_++;
      const auto session = std::make_shared<Session>(*this, id, std::move(socket));
      sessions_[id] = session;
      session->Start();
    } else {
      Log(Level::kWarning, "connection_refused", {{"connections", std::to_string(sessions_.size())}});
    }
    Accept();
  });
}

void Server::OnTick() {
  coordinator_.Tick(Now());
  Drain();
  tick_.expires_after(kTickPeriod);
  tick_.async_wait([this](std::error_code error) {
    if (!error) OnTick();
  });
}

void Server::OnFrame(std::uint64_t id, const control::ToMaster& message) {
  if (message.has_status()) {
    control::FromMaster reply;
    reply.mutable_status()->set_json(
        StatusJson(coordinator_, MonotonicNow() - started_, JournalState(), kStatusBytesMax));
    sessions_.at(id)->Send(reply);
    return;
  }
  if (message.has_plan()) {
    sessions_.at(id)->Send(ExplainedPlan(message.plan()));
    return;
  }
  if (message.has_hello()) {
    const control::DaemonHello& hello = message.hello();
    Log(Level::kInfo, "daemon_hello", {{"name", hello.name()}, {"site", hello.site()}, {"address", hello.address()}});
  } else if (message.has_report()) {
    const control::Report& report = message.report();
    Log(Level::kInfo, "report",
        {{"peer", std::to_string(report.peer())},
         {"epoch", ToString(Epoch(report.epoch()))},
         {"reason", report.reason()}});
  }
  coordinator_.OnMessage(id, message, Now());
  Drain();
}

control::FromMaster Server::ExplainedPlan(const control::PlanRequest& request) const {
  const Result<std::string> json = PlanJson(coordinator_.FindGroup(request.group()), request);
  control::FromMaster message;
  control::PlanReply& reply = *message.mutable_plan();
  reply.set_code(static_cast<std::uint32_t>(json.ok() ? Code::kOk : json.status().code()));
  if (json.ok()) {
    reply.set_json(json.value());
  } else {
    reply.set_text(json.status().text());
  }
  return message;
}

void Server::OnClosed(std::uint64_t id, const std::string& why) {
  Log(Level::kInfo, "connection_closed", {{"connection", std::to_string(id)}, {"why", why}});
  sessions_.erase(id);
  coordinator_.OnDisconnect(id, Now());
  // The caller may be inside Drain: what this leads to goes out in the next turn.
  asio::post(io_, [this] { Drain(); });
}

// A change that was written down may let the next one happen at once.
void Server::WriteJournal() {
  const TimePoint now = Now();
  while (coordinator_.NeedsRecord() && now >= journal_retry_) {
    const Status status = options_.journal->Write(coordinator_.Unrecorded());
    if (status.ok()) {
      if (!journal_error_.empty()) Log(Level::kInfo, "journal_back", {});
      coordinator_.OnRecorded(now);
    } else {
      journal_retry_ = now + kJournalRetry;
      if (status.text() != journal_error_) {
        Log(Level::kError, "journal_failed", {{"error", status.text()}, {"effect", "no group changes until it can"}});
      }
    }
    journal_error_ = status.text();
  }
}

std::string Server::JournalState() const {
  if (options_.journal == nullptr) return "none";
  return journal_error_.empty() ? "ok" : journal_error_;
}

void Server::Drain() {
  WriteJournal();
  for (const Coordinator::Action& action : coordinator_.TakeActions()) {
    const auto found = sessions_.find(action.connection);
    if (found == sessions_.end()) continue;
    const std::shared_ptr<Session> session = found->second;
    if (action.message) {
      LogAction(*action.message);
      session->Send(*action.message);
    }
    if (action.close) session->CloseAfterWrite();
  }
}

void Server::LogAction(const control::FromMaster& message) {
  if (message.has_view()) {
    const control::View& view = message.view().view();
    Log(Level::kInfo, message.view().prepared() ? "view_prepared" : "view_sent",
        {{"group", view.group()},
         {"epoch", ToString(Epoch(view.epoch()))},
         {"peer", std::to_string(message.view().peer())},
         {"world", std::to_string(view.members_size())},
         {"verdicts", std::to_string(view.verdicts_size())}});
    for (const control::Verdict& verdict : view.verdicts()) {
      if (static_cast<Code>(verdict.code()) != Code::kInternal) continue;
      Log(Level::kError, "contradiction", {{"group", view.group()}, {"text", verdict.text()}});
    }
  } else if (message.has_evicted()) {
    const bool left = static_cast<Code>(message.evicted().code()) == Code::kLeft;
    Log(left ? Level::kInfo : Level::kWarning, left ? "peer_left" : "peer_dropped",
        {{"peer", std::to_string(message.evicted().peer())}, {"text", message.evicted().text()}});
  }
}

}  // namespace ringway
