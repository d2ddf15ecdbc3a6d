#include "master/shell/server.h"

#include <algorithm>
#include <asio/post.hpp>
#include <random>
#include <string>
#include <utility>

#include "master/coordination/verdicts.h"
#include "master/shell/message_log.h"
#include "master/shell/server_session.h"
#include "proto/tls/utc.h"

namespace ringway {
namespace {

using shell::Level;
using shell::Log;

constexpr std::chrono::milliseconds kTickPeriod{20};
constexpr Duration kGapMax = 3 * kTickPeriod;
constexpr int kQueryRest = 4;  // pause after answers, in multiples of the work

CoordinatorOptions CoordinatorOptionsOf(const ServerOptions& options, std::uint32_t term) {
  CoordinatorOptions coordinator = options.coordinator;
  coordinator.journaled = options.store != nullptr;
  coordinator.term = term;
  std::random_device random;
  coordinator.instance = (static_cast<std::uint64_t>(random()) << 32) | random();
  return coordinator;
}

}  // namespace

Server::Server(asio::io_context& io, ServerOptions options)
    : io_(io),
      options_(std::move(options)),
      coordinator_(std::in_place, CoordinatorOptionsOf(options_, 1)),
      acceptor_(
          io, [this](std::unique_ptr<net::Stream> stream) { Take(std::move(stream)); },
          [this](const std::string& why) { return MakeRoom(why); }),
      tick_(io),
      clock_(kGapMax),
      queries_(io) {
  if (options_.store != nullptr) {
    options_.store->Start(this);
  } else {
    OnLead({.term = 1});
  }
  OnTick();
}

Server::~Server() {
  for (const auto& [id, session] : sessions_) session->Abandon();
}

void Server::Take(std::unique_ptr<net::Stream> stream) {
  if (options_.security != nullptr) stream = options_.security->Accepted(std::move(stream));
  const std::uint64_t id = next_id_++;
  const auto session = std::make_shared<Session>(*this, id, std::move(stream));
  sessions_[id] = session;
  Enter(*session, id);
  session->Start();
}

bool Server::MakeRoom(const std::string& why) {
  LogStranger("accept_failed", {{"error", why}});
  return Evict(Kind::kStranger) || Evict(Kind::kServedClient) || Evict(Kind::kAsksPlan) || Evict(Kind::kAsksStatus);
}

BoundedConnectionSet* Server::ConnectionsOf(Kind kind) {
  switch (kind) {
    case Kind::kStranger:
      return &strangers_;
    case Kind::kAsksStatus:
      return &ask_status_;
    case Kind::kAsksPlan:
      return &ask_plan_;
    case Kind::kServedClient:
      return &served_clients_;
    case Kind::kDaemon:
      return nullptr;
  }
  return nullptr;
}

void Server::Become(std::uint64_t id, Kind kind) {
  Session& session = *sessions_.at(id);
  if (BoundedConnectionSet* connections = ConnectionsOf(session.kind())) connections->Remove(session.source(), id);
  session.Become(kind);
  Enter(session, id);
}

void Server::Enter(const Session& session, std::uint64_t id) {
  BoundedConnectionSet* connections = ConnectionsOf(session.kind());
  if (connections == nullptr) return;
  if (connections->size() >= (session.kind() == Kind::kStranger ? kStrangersMax : kClientsMax))
    (void)Evict(session.kind());
  connections->Add(session.source(), id);
}

bool Server::Evict(Kind kind) {
  const BoundedConnectionSet& connections = *ConnectionsOf(kind);
  if (connections.size() == 0) return false;
  const std::shared_ptr<Session> session = sessions_.at(Waits(kind) ? connections.Newest() : connections.Oldest());
  session->Close("too many connections that are no daemon's");
  return true;
}

void Server::OnTick() {
  coordinator_->Tick(Now());
  CheckStore();
  Drain();
  for (const TraceRelay::Message& overdue : traces_.Tick(MonotonicNow())) Pass(overdue);
  if (const auto left_out = log_budget_.TakeSummary(MonotonicNow())) {
    ++stranger_lines_;
    Log(Level::kInfo, "strangers", {{"lines_left_out", *left_out}});
  }
  tick_.After(kTickPeriod, [this] { OnTick(); });
}

void Server::OnFrame(std::uint64_t id, const control::ToMaster& message) {
  const bool asks_leader = message.has_plan() || message.has_evict() || message.has_drain() || message.has_trace();
  if (!leads_ && (message.has_hello() || asks_leader)) return RefuseInStandby(id);
  if (message.has_status() || message.has_plan()) return OnQuery(id, message);
  if (message.has_evict() || message.has_drain()) return OnOrder(id, message);
  if (message.has_trace()) return OnTrace(id, message.trace());
  if (message.has_trace_part()) return OnTracePart(id, message.trace_part());
  if (message.has_hello()) {
    if (const Status status = CheckHello(id, message.hello()); !status.ok()) return RefuseHello(id, status);
  }
  if (sessions_.at(id)->kind() == Kind::kDaemon) {
    LogFromDaemon(id, message, *coordinator_);
    if (message.has_heartbeat()) traces_.OnHeartbeat(id, message.heartbeat(), MonotonicNow());
  }
  coordinator_->OnMessage(id, message, Now());
  Drain();
}

// ---------------------------------------------------------------------------------------------- clients

void Server::OnQuery(std::uint64_t id, const control::ToMaster& message) {
  if (sessions_.at(id)->kind() == Kind::kStranger) {
    Become(id, message.has_status() ? Kind::kAsksStatus : Kind::kAsksPlan);
  }
  desk_.Ask(id, message);
  ScheduleQueries();
}

void Server::AskStatus(const control::StatusRequest& request, std::function<void(std::string)> then) {
  control::ToMaster message;
  *message.mutable_status() = request;
  own_questions_[next_id_] = std::move(then);
  desk_.Ask(next_id_++, message);
  ScheduleQueries();
}

Status Server::CheckOrder(const Session& session) const {
  const Identity* who = session.identity();
  if (who == nullptr && options_.security == nullptr) {  // anybody may reach the port
    if (session.is_local()) return Status::Ok();
    return {Code::kInvalidArgument, "orders are taken from the master's own host only: run ringwayctl there"};
  }
  if (who == nullptr) return {Code::kInternal, "nobody is known at the other end"};
  if (who->role == ProcessRole::kOperator || (who->role == ProcessRole::kMaster && session.is_local())) {
    return Status::Ok();
  }
  return {Code::kInvalidArgument, "orders are an operator's, and this is " + ToString(*who) +
                                      ": use a certificate issued with --role operator"};
}

void Server::OnOrder(std::uint64_t id, const control::ToMaster& order) {
  const std::shared_ptr<Session> session = sessions_.at(id);
  if (session->kind() != Kind::kStranger) return session->Close("an order on a connection already in use");
  Become(id, Kind::kAsksStatus);
  Status status = CheckOrder(*session);
  if (status.ok()) status = order.has_evict() ? Evict(id, order.evict()) : coordinator_->Drain(order.drain());
  if (!status.ok()) {
    LogStranger("order_refused", About(*session, status.text()));
  } else if (order.has_evict()) {
    Log(Level::kWarning, "evict",
        {{"group", ClipText(order.evict().group())}, {"peer", ClipText(order.evict().peer())}});
  } else {
    Log(Level::kWarning, "drain", {{"daemon", ClipText(order.drain().daemon())}, {"end", order.drain().end()}});
  }
  if (!status.ok() || order.has_drain()) AnswerOrder(id, status);
  Drain();
}

// Drain answers once it is recorded: a successor does not know of what is not.
Status Server::Evict(std::uint64_t id, const control::EvictRequest& request) {
  const Result<PeerId> peer = coordinator_->Evict(request, Now());
  if (peer.ok()) orders_.Add(id, request.group(), peer.value(), MonotonicNow());
  return peer.status();
}

void Server::AnswerOrder(std::uint64_t id, const Status& status) {
  const std::shared_ptr<Session> session = sessions_.at(id);
  control::FromMaster reply;
  reply.mutable_order()->set_code(static_cast<std::uint32_t>(status.code()));
  reply.mutable_order()->set_text(status.text());
  auto frame = std::make_shared<std::string>();
  AppendFrame(reply, *frame);
  Answer(*session, id, std::move(frame));
}

void Server::ScheduleQueries() {
  if (std::exchange(queries_scheduled_, true)) return;
  queries_.At(queries_next_, [this] { RunQueries(); });
}

void Server::RunQueries() {
  queries_scheduled_ = false;
  const TimePoint begin = MonotonicNow();
  if (begin < queries_next_) return ScheduleQueries();  // a trace has taken its time since
  TimePoint now = begin;
  const ProcessFacts facts = Facts(begin);
  while (HasQueries() && now - begin < kQuerySlice) {
    if (!trace_queries_.empty()) PassTraceQuery();
    const std::optional<QueryDesk::Answer> answer = desk_.idle() ? std::nullopt : desk_.Step(*coordinator_, facts);
    if (answer) Serve(*answer);
    now = MonotonicNow();
  }
  queries_next_ = now + kQueryRest * (now - begin);
  if (HasQueries()) ScheduleQueries();
}

void Server::Serve(const QueryDesk::Answer& answer) {
  for (const std::uint64_t id : answer.to) {
    if (const auto own = own_questions_.extract(id)) {
      own.mapped()(answer.message.status().json());
      continue;
    }
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;  // has made room for one before it
    const std::shared_ptr<Session> session = found->second;
    Answer(*session, id, answer.frame);
  }
}

void Server::Answer(Session& session, std::uint64_t id, std::shared_ptr<const std::string> frame) {
  if (Waits(session.kind())) Become(id, Kind::kServedClient);
  session.Answer(std::move(frame));
}

void Server::OnTrace(std::uint64_t id, const control::TraceRequest& request) {
  if (sessions_.at(id)->kind() == Kind::kStranger) Become(id, Kind::kAsksStatus);
  trace_queries_.push_back({.client = id, .request = request});
  ScheduleQueries();
}

void Server::PassTraceQuery() {
  const TraceQuery query = std::move(trace_queries_.front());
  trace_queries_.pop_front();
  Pass(traces_.Ask(query.client, query.request, coordinator_->ConnectionOf(query.request.daemon()), MonotonicNow()));
}

void Server::OnTracePart(std::uint64_t id, const control::TracePart& part) {
  if (sessions_.at(id)->kind() != Kind::kDaemon) return sessions_.at(id)->Close("a trace of what is no daemon");
  const TimePoint begin = MonotonicNow();
  if (const auto answer = traces_.OnPart(id, part, begin)) Pass(*answer);
  const TimePoint now = MonotonicNow();
  const Duration took = 2 * (now - begin);  // to read and parse it has taken as long
  queries_next_ = std::max(queries_next_, now) + kQueryRest * took;
}

void Server::Pass(const TraceRelay::Message& message) {
  const auto found = sessions_.find(message.to);
  if (found == sessions_.end()) return;
  const std::shared_ptr<Session> session = found->second;
  if (!message.message.has_trace_reply()) return session->Send(message.message);
  auto frame = std::make_shared<std::string>();
  AppendFrame(message.message, *frame);
  Answer(*session, message.to, std::move(frame));
}

// ---------------------------------------------------------------------------------------------- daemons

Status Server::CheckHello(std::uint64_t id, const control::DaemonHello& hello) const {
  const Identity* who = sessions_.at(id)->identity();
  if (options_.security == nullptr) return Status::Ok();
  if (who == nullptr) return {Code::kInternal, "nobody is known at the other end"};
  if (who->role != ProcessRole::kDaemon) {
    return {Code::kInvalidArgument,
            "this is the certificate of " + ToString(*who) + ": a daemon needs one issued with --role daemon"};
  }
  if (who->name != hello.name()) {
    return {Code::kInvalidArgument, "a daemon that is called " + ClipText(hello.name()) + " has the certificate of " +
                                        ToString(*who) + ": its --name is to be the one on it"};
  }
  return Status::Ok();
}

void Server::RefuseHello(std::uint64_t id, const Status& why) {
  const std::shared_ptr<Session> session = sessions_.at(id);
  LogStranger("connection_refused", About(*session, why.text()));
  control::Refusal refusal;
  refusal.set_code(static_cast<std::uint32_t>(why.code()));
  refusal.set_text(why.text());
  Refuse(*session, refusal);
}

// No line in the log: daemons that look for the leader come here, too.
void Server::RefuseInStandby(std::uint64_t id) {
  control::Refusal refusal;
  refusal.set_code(static_cast<std::uint32_t>(Code::kMasterUnreachable));
  refusal.set_text(leader_.empty() ? "this master stands by, and knows of none that leads"
                                   : "this master stands by, and the one at " + leader_ + " leads");
  refusal.set_leader(leader_);
  const std::shared_ptr<Session> session = sessions_.at(id);
  Refuse(*session, refusal);
}

void Server::Refuse(Session& session, const control::Refusal& refusal) {
  control::FromMaster reply;
  *reply.mutable_refusal() = refusal;
  session.Send(reply);
  session.CloseAfterWrite();
}

// The coordinator has accepted its hello.
void Server::OnDaemon(std::uint64_t id) {
  if (const Coordinator::Daemon* daemon = coordinator_->DaemonAt(id)) {
    Log(Level::kInfo, "daemon_hello",
        {{"connection", std::to_string(id)},
         {"name", daemon->name},
         {"site", daemon->site},
         {"address", daemon->address}});
  }
  Become(id, Kind::kDaemon);
}

void Server::LogStranger(const std::string& event, LogFields fields) {
  const auto left_out = log_budget_.Take(MonotonicNow());
  if (!left_out) return;
  ++stranger_lines_;
  fields.push_back({"lines_left_out", *left_out});
  Log(Level::kInfo, event, fields);
}

LogFields Server::About(const Session& session, const std::string& why) {
  const Identity* const who = session.identity();
  return {{"from", session.address()}, {"identity", who != nullptr ? ToString(*who) : ""}, {"why", ClipText(why)}};
}

void Server::OnClosed(std::uint64_t id, Contact how, const std::string& why) {
  const auto found = sessions_.find(id);
  if (BoundedConnectionSet* connections = ConnectionsOf(found->second->kind())) {
    connections->Remove(found->second->source(), id);
    if (found->second->kind() != Kind::kServedClient) LogStranger("stranger_closed", About(*found->second, why));
  } else {
    Log(Level::kInfo, "connection_closed",
        {{"connection", std::to_string(id)}, {"daemon", NameAt(id)}, {"why", ClipText(why)}});
  }
  sessions_.erase(found);
  desk_.Forget(id);
  orders_.Forget(id);
  std::erase_if(trace_queries_, [id](const TraceQuery& query) { return query.client == id; });
  for (const TraceRelay::Message& failed : traces_.OnClosed(id)) Pass(failed);
  coordinator_->OnDisconnect(id, how, Now());
  // The caller may be inside Drain: resulting messages are sent in the next turn of the event loop.
  asio::post(io_, [this] { Drain(); });
}

// ---------------------------------------------------------------------------------------------- the store

void Server::OnLead(Tenure tenure) {
  leads_ = true;
  leader_.clear();
  coordinator_.emplace(CoordinatorOptionsOf(options_, tenure.term));
  coordinator_->Recover(tenure.groups, Now());
  coordinator_->Note({.kind = "master_started", .text = "term " + std::to_string(tenure.term)});
  Log(Level::kInfo, "leads", {{"term", tenure.term}, {"groups", tenure.groups.size()}});
}

// The daemons find the one that leads now, and it those of their peers that it knows.
void Server::OnStandby(const std::string& leader, const Status& why) {
  const bool led = std::exchange(leads_, false);
  if (std::exchange(leader_, leader) != leader || led) {
    Log(Level::kInfo, "stands_by", {{"leader", leader.empty() ? "none" : leader}});
  }
  if (!led) return;
  Log(Level::kWarning, "deposed", {{"term", coordinator_->options().term}, {"why", why.text()}});
  writing_ = false;
  const auto sessions = sessions_;  // a copy: closing removes them
  for (const auto& [id, session] : sessions) {
    if (session->kind() == Kind::kDaemon) session->Close("this master leads no more");
  }
  for (const OrderDesk::Answer& answer : orders_.TakeAll()) AnswerOrder(answer.to, answer.status);
  for (const std::uint64_t id : desk_.TakePlans()) RefuseInStandby(id);
  for (const TraceQuery& query : std::exchange(trace_queries_, {})) RefuseInStandby(query.client);
  coordinator_.emplace(CoordinatorOptionsOf(options_, 1));
}

void Server::OnWritten(const Status& status) {
  TakeOutcome(status);
  Drain();
}

// Once a change is written, the next one may happen at once.
void Server::WriteChanges() {
  while (coordinator_->NeedsRecord() && !writing_ && Now() >= store_retry_) {
    writing_ = true;
    const std::optional<Status> outcome = options_.store->Write(coordinator_->BeginRecord());
    if (outcome) TakeOutcome(*outcome);
  }
}

void Server::TakeOutcome(const Status& status) {
  writing_ = false;
  if (status.ok()) {
    coordinator_->OnRecorded(Now());
  } else {
    store_retry_ = Now() + kStoreRetry;
    coordinator_->OnRecordFailed();
  }
  NoteStore(status.ok() ? options_.store->Check() : status);
}

// Notices a store that is gone before it is needed.
void Server::CheckStore() {
  if (options_.store == nullptr || coordinator_->NeedsRecord() || Now() < store_check_) return;
  store_check_ = Now() + kStoreRetry;
  NoteStore(options_.store->Check());
}

void Server::NoteStore(const Status& status) {
  if (status.text() == store_error_) return;
  if (status.ok()) {
    Log(Level::kInfo, "journal_back", {});
  } else {
    Log(Level::kError, "journal_failed", {{"error", status.text()}});
  }
  coordinator_->Note({.kind = status.ok() ? "journal_back" : "journal_failed", .text = status.text()});
  store_error_ = status.text();
}

ProcessFacts Server::Facts(TimePoint now) const {
  const bool has_store = options_.store != nullptr;
  return {.uptime = now - started_,
          .journal = !has_store             ? "none"
                     : store_error_.empty() ? "ok"
                                            : store_error_,
          .journal_path = has_store ? options_.store->Place() : "",
          .leads = leads_,
          .leader = leader_,
          .version = RINGWAY_VERSION,
          .utc = tls::UtcNow(),
          .security = tls::FactsOf(options_.security.get(), options_.insecure)};
}

void Server::Drain() {
  WriteChanges();
  for (const FormerPeer& former : coordinator_->TakeDropped()) LogDropped(former);
  LogSlowHosts(coordinator_->timeline(), &events_logged_);
  for (Coordinator::Action& action : coordinator_->TakeActions()) {
    const auto found = sessions_.find(action.connection);
    if (found == sessions_.end()) continue;
    const std::shared_ptr<Session> session = found->second;
    if (action.message) {
      if (action.message->has_hello_reply()) {
        OnDaemon(action.connection);
      }
      if (action.message->has_refusal()) {
        LogStranger("connection_refused", About(*session, action.message->refusal().text()));
      }
      if (action.message->has_heartbeat()) TraceRelay::Stamp(*action.message->mutable_heartbeat(), MonotonicNow());
      LogToDaemon(action, *coordinator_);
      session->Send(*action.message);
    }
    if (action.close) session->CloseAfterWrite();
  }
  for (const OrderDesk::Answer& answer : orders_.TakeDone(*coordinator_, MonotonicNow()))
    AnswerOrder(answer.to, answer.status);
}

std::string Server::NameAt(std::uint64_t connection) const {
  const Coordinator::Daemon* daemon = coordinator_->DaemonAt(connection);
  return daemon == nullptr ? "" : daemon->name;
}

}  // namespace ringway
