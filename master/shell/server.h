// The master's sockets: accepts daemons and status clients, carries frames to the coordinator and back.
//
// With a store, changes of the coordinator are written before any peer hears of them. While that fails (a full disk, no
// quorum) the master logs it, serves the existing views, and retries every kStoreRetry. As often it asks the store
// whether it works.
//
// A master that stands by has no daemons: it refuses them, and orders, plans and traces, by naming the one that leads.
// It answers for its own status. One that leads no more closes its daemons' connections, refuses plans and traces that
// wait in the same way, and says of evictions that wait that their outcome is not known.
//
// Anybody who reaches the port may connect, so connections of others than daemons are bounded and cheap:
//
//   connections that have sent nothing yet   kStrangersMax, each closed after `hello_timeout`
//   clients that wait for a status, for a    kClientsMax of each, the last closed when they ask nothing for as long
//     plan, or have had an answer
//   one more than that                       closes the oldest of the host that has the most, but the newest of those
//                                            that wait for an answer: a flood that arrives faster than it is answered
//                                            would otherwise have each of its answers made for nobody
//   out of descriptors                       as one more; else connections wait in the backlog
//   a connection                             one request at a time, small frames (master/shell/server_session.h)
//   traces of daemons                        TraceRelay
//   answers, traces                          made or passed on in slices of kQuerySlice, at most a fifth of the time
//   lines in the log                         LogBudget
//
// The coordinator bounds the number of daemons.
//
// With `security` a connection begins with its handshake, within `hello_timeout`. A daemon's hello has to carry the
// name on its certificate; orders (to evict a peer, to drain a daemon) are an operator's. Without, they are taken from
// this host only.
//
// Threads: the one that runs the io_context. Errors on a connection end that connection only.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "master/coordination/coordinator.h"
#include "master/leadership/store.h"
#include "master/shell/order_desk.h"
#include "master/shell/query_desk.h"
#include "master/shell/trace_relay.h"
#include "proto/bounded_connection_set.h"
#include "proto/log_budget.h"
#include "proto/log_field.h"
#include "proto/result.h"
#include "proto/stream/acceptor.h"
#include "proto/stream/stream.h"
#include "proto/stream/timer.h"
#include "proto/stream/unique_fd.h"
#include "proto/tls/tls_security.h"

namespace ringway {

struct ServerOptions {
  CoordinatorOptions coordinator;
  std::chrono::milliseconds hello_timeout{5000};
  std::unique_ptr<Store> store;                // null: a restarted master does not know the groups
  std::shared_ptr<tls::TlsSecurity> security;  // null: connections are in the clear
  bool insecure = false;                       // they are, and other hosts may connect
};

class Server final : public StoreSink {
 public:
  static constexpr std::size_t kStrangersMax = 256;
  static constexpr std::size_t kClientsMax = 64;
  static constexpr Duration kQuerySlice = std::chrono::milliseconds(2);
  static constexpr Duration kStoreRetry = std::chrono::milliseconds(500);

  Server(asio::io_context& io, ServerOptions options);
  ~Server() override;

  // Accepts from `listening`, which is non-blocking, when the io_context runs.
  Status Start(net::UniqueFd listening) { return acceptor_.Start(std::move(listening)); }
  // A connection that was accepted.
  void Take(std::unique_ptr<net::Stream> stream);
  // Passes a status, as JSON, to the program itself, without a connection that a flood of clients could deny to it.
  // `then` is called from a later turn of the loop. REQUIRES: few at a time.
  void AskStatus(const control::StatusRequest& request, std::function<void(std::string)> then);
  const Coordinator& coordinator() const { return *coordinator_; }
  bool leads() const { return leads_; }
  std::size_t connections() const { return sessions_.size(); }
  const QueryDesk& desk() const { return desk_; }
  std::uint64_t log_lines_of_strangers() const { return stranger_lines_; }

  // ---- StoreSink
  void OnLead(Tenure tenure) override;
  void OnStandby(const std::string& leader, const Status& why) override;
  void OnWritten(const Status& status) override;

 private:
  class Session;
  enum class Kind { kStranger, kAsksStatus, kAsksPlan, kServedClient, kDaemon };

  // The coordinator's clock: time in which this process does not run does not count as silence.
  TimePoint Now() { return clock_.Now(MonotonicNow()); }
  // Closes a connection that is no daemon's. Returns whether there was one.
  bool MakeRoom(const std::string& why);
  void OnTick();
  void OnFrame(std::uint64_t id, const control::ToMaster& message);
  void OnQuery(std::uint64_t id, const control::ToMaster& message);
  void OnTrace(std::uint64_t id, const control::TraceRequest& request);
  void OnTracePart(std::uint64_t id, const control::TracePart& part);
  void Pass(const TraceRelay::Message& message);
  // Requests wait until queries_next_, too, for the answers before them take the master's time.
  struct TraceQuery {
    std::uint64_t client = 0;
    control::TraceRequest request;
  };
  void PassTraceQuery();
  bool HasQueries() const { return !desk_.idle() || !trace_queries_.empty(); }
  void OnDaemon(std::uint64_t id);
  // Another master leads: the daemon, or the client, has to ask that one.
  void RefuseInStandby(std::uint64_t id);
  void Refuse(Session& session, const control::Refusal& refusal);
  // Returns Ok if the other end may speak as this daemon; always where no certificates are required.
  Status CheckHello(std::uint64_t id, const control::DaemonHello& hello) const;
  void RefuseHello(std::uint64_t id, const Status& why);
  // Evictions and drains.
  Status CheckOrder(const Session& session) const;
  void OnOrder(std::uint64_t id, const control::ToMaster& order);
  Status Evict(std::uint64_t id, const control::EvictRequest& request);
  void AnswerOrder(std::uint64_t id, const Status& status);
  void ScheduleQueries();
  void RunQueries();
  void Serve(const QueryDesk::Answer& answer);
  // Its request is answered.
  void Answer(Session& session, std::uint64_t id, std::shared_ptr<const std::string> frame);
  // Returns whether a client of this kind waits for its first answer.
  static bool Waits(Kind kind) { return kind == Kind::kAsksStatus || kind == Kind::kAsksPlan; }
  BoundedConnectionSet* ConnectionsOf(Kind kind);
  void Become(std::uint64_t id, Kind kind);
  // Makes room for it among the connections of its kind.
  void Enter(const Session& session, std::uint64_t id);
  // Closes one of this kind, if there is one.
  bool Evict(Kind kind);
  void LogStranger(const std::string& event, LogFields fields);
  static LogFields About(const Session& session, const std::string& why);
  void OnClosed(std::uint64_t id, Contact how, const std::string& why);
  void Drain();
  void WriteChanges();
  void TakeOutcome(const Status& status);
  void CheckStore();
  void NoteStore(const Status& status);
  ProcessFacts Facts(TimePoint now) const;
  // Name of the daemon on that connection; empty before its hello.
  std::string NameAt(std::uint64_t connection) const;

  asio::io_context& io_;
  const ServerOptions options_;
  std::optional<Coordinator> coordinator_;  // always there; without groups in standby
  bool leads_ = false;
  std::string leader_;    // address of another one that leads; empty: none is known
  bool writing_ = false;  // the store has not answered yet
  net::Acceptor acceptor_;
  net::Timer tick_;
  AttendedClock clock_;
  TimePoint started_ = MonotonicNow();
  std::string store_error_;  // of the last write or check; empty: it succeeded
  TimePoint store_retry_{};
  TimePoint store_check_{};
  std::uint64_t next_id_ = 1;  // of connections and of the program's own questions
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::map<std::uint64_t, std::function<void(std::string)>> own_questions_;
  BoundedConnectionSet strangers_, ask_status_, ask_plan_, served_clients_;
  QueryDesk desk_;
  OrderDesk orders_;
  TraceRelay traces_;
  std::deque<TraceQuery> trace_queries_;  // one a connection
  net::Timer queries_;
  bool queries_scheduled_ = false;
  TimePoint queries_next_{};  // when the next slice may begin
  LogBudget log_budget_;
  std::uint64_t stranger_lines_ = 0;
  std::uint64_t events_logged_ = 0;  // number of the newest that was looked at
};

}  // namespace ringway
