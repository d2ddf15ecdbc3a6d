// The data thread: all peers, their links and their trainers, on one event loop.
//
// The control thread reaches it only through its BoundedPost (see daemon.h), and it reaches the control thread only
// through DataPlaneSink, whose calls post. Links that arrive before the master's word about their peer are held for a
// moment: the two travel on different connections.
//
// Joins outlive the master: what was asked is asked again when it is back, and a peer without a view that it does not
// know any more is replaced by a new one. The trainer only waits.
//
// Threads: everything here runs on the data thread, but the constructor and the destructor, which run while it does
// not. Lifetime: `control` outlives it.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/flow/host_flow.h"
#include "daemon/flow/prober.h"
#include "daemon/local/trainer_session.h"
#include "daemon/local/user_shares.h"
#include "daemon/net/lane_threads.h"
#include "daemon/net/listener.h"
#include "daemon/runtime/descriptors.h"
#include "daemon/runtime/flight_deck.h"
#include "daemon/runtime/in_process_dials.h"
#include "daemon/runtime/peer_runtime.h"
#include "daemon/runtime/status_json.h"
#include "proto/clock.h"
#include "proto/event_log.h"
#include "proto/log_field.h"
#include "proto/permits.h"
#include "proto/stream/timer.h"
#include "proto/tls/tls_security.h"

namespace ringway::daemon {

// An event for the log.
struct LogLine {
  std::string event;
  std::string group = {};
  PeerId peer = {};       // 0: of the daemon as a whole
  std::string name = {};  // of the peer
  LogFields fields;       // of its agreement::Note
  agreement::Severity severity = agreement::Severity::kInfo;
};

// The control thread as the data thread sees it. Every call but kept() posts and returns.
class DataPlaneSink {
 public:
  virtual ~DataPlaneSink() = default;
  virtual void ToMaster(control::ToMaster message) = 0;
  // Returns false when the queue is full: nothing will be dialled.
  [[nodiscard]] virtual bool Dial(PeerId self, std::uint64_t serial, net::DialRequest request) = 0;
  // Lost when the queue is full: the connection is closed. On any thread.
  virtual void Keep(net::KeptConnection kept) = 0;
  // Connections that are kept.
  [[nodiscard]] virtual std::size_t kept() const = 0;
  virtual void SetCounters(control::DaemonHeartbeat counters) = 0;
  virtual void Log(LogLine line) = 0;
  // Writes it to a file.
  virtual void WriteDump(FlightDump dump) = 0;
  // After ShutDown: every peer has ended.
  virtual void OnDrained() = 0;
};

struct DataPlaneOptions {
  DaemonIdentity identity;
  Permits users;  // see Config
  std::uint64_t instance = 0;
  Duration grace{};
  std::uint64_t probe_bytes = 0;                         // see Config
  std::uint64_t probe_bytes_a_day = 0;                   // likewise
  std::uint32_t share = flow::kShareDefault;             // likewise
  std::uint32_t state_share = flow::kStateShareDefault;  // likewise
  std::uint64_t uplink_limit_mbit = 0;                   // likewise
  std::size_t lane_threads = 0;                          // beside the data thread; 0: it does everything
  std::uint64_t memory_max = MemoryBudget::kUnlimited;   // see Config
  DescriptorPlan descriptors;
  std::shared_ptr<tls::TlsSecurity> security = nullptr;  // for the status
  bool insecure = false;                                 // likewise
};

class DataPlane final : public RuntimeSink, public local::SessionSink {
 public:
  DataPlane(asio::io_context& context, DataPlaneOptions options, DataPlaneSink* control);
  ~DataPlane() override;
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  // Returns the budget that trainers' sessions share.
  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  // Returns the shares of the users.
  const std::shared_ptr<local::UserShares>& shares() const { return shares_; }
  // Before the first master message; both are known only now. `address`: what others dial; empty: nothing. `bound`: of
  // the listener.
  void SetAddress(const std::string& address, const std::string& bound) {
    options_.identity.address = address;
    bound_ = bound;
  }
  const DescriptorPlan& descriptors() const { return options_.descriptors; }
  // Peers that join from now on are recorded in this memory.
  void SetFlight(FlightMemory memory);
  // Status shows this advice.
  void SetAdvice(std::vector<std::string> advice) { options_.identity.advice = std::move(advice); }

  // ---- posted by the control thread
  // Limits what the host sends to other hosts from now on; 0 means no limit.
  void SetUplinkLimit(std::uint64_t mbit);
  // Starts the timers, with a master or without. Called once.
  void Start();
  void OnMasterUp(const control::HelloReply& reply);
  void OnMasterDown();
  // The master has refused the connection; `why` goes to the trainers that wait for one.
  void OnMasterRefused(const std::string& why);
  void OnMasterMessage(const control::FromMaster& message);
  void OnOffer(net::LinkOffer offer);
  void OnDialed(PeerId self, std::uint64_t serial, Result<net::DialedLinks> outcome);
  void ShutDown(TimePoint deadline);
  void DumpFlight();
  // Ends everything at once; afterwards the loop runs dry.
  void Stop();

  // ---- RuntimeSink
  void SendToMaster(control::ToMaster message) override;
  void Dial(net::DialRequest request, std::uint64_t serial) override;
  void Log(const agreement::Note& note, PeerId self, const std::string& group) override;
  void OnPeerEnded(PeerId self) override;
  flow::HostFlow& flow() override { return flow_; }
  void Keep(net::KeptConnection kept) override { control_->Keep(std::move(kept)); }
  std::shared_ptr<void> CountRetiring() override;
  // ---- local::SessionSink
  Status MayJoin(const local::TrainerSession& session, const std::optional<std::string>& group) override;
  void OnJoin(const std::shared_ptr<local::TrainerSession>& session, const local::JoinOrder& order) override;
  void OnSessionOver(const std::shared_ptr<local::TrainerSession>& session) override;
  std::string StatusJson() override;
  std::string FlightImage(const std::string& group, std::uint32_t last) override;
  std::uint64_t Instance() const override { return options_.instance; }

 private:
  struct HeldOffer {
    net::LinkOffer offer;
    TimePoint until;
  };
  static constexpr const char* kStopping = "the daemon is stopping";
  static constexpr const char* kDrained = "an operator takes this daemon out of service: use another host's";
  static constexpr std::size_t kEventsMax = 128;
  static constexpr std::size_t kHeldOffersMax = 1024;
  static constexpr std::size_t kHeldOffersOfOneMax = 256;  // of one daemon, if it is known
  // Returns whether no more is held of whoever dialled this one.
  bool HoldsEnoughLike(const net::LinkOffer& offer) const;

  void ArmTick();
  void OnTick();
  void TickAll();
  struct Joining {
    std::shared_ptr<local::TrainerSession> session;
    control::JoinRequest request;
    std::optional<TimePoint> held_until = {};  // the master is asked then, or once nothing is left to inherit
  };
  void Ask(const std::shared_ptr<local::TrainerSession>& session, control::JoinRequest request);
  void SendJoin(const control::JoinRequest& request);
  // Returns whether a peer of this host is in the group that has no trainer any more.
  bool IsAnyLeaving(const std::string& group) const;
  void AskForTheHeld(TimePoint now);
  void SendRoster();
  std::string NoMasterText() const;
  void ReportNoMaster();
  // kResourceExhausted if the lanes there are, with so many more for this user, take descriptors that are kept for
  // something else, or for other users: more than a lane like `lane` may.
  Status RoomFor(const HostUser& user, std::size_t lanes, LaneId lane) const;
  // A line that a user can cause: left out, and counted, where its share of the log is used up.
  void LogOf(const HostUser& user, LogLine line);
  void LogLeftOut(std::uint32_t uid, std::uint64_t lines);
  // To the log, and to the events that status shows.
  void Write(LogLine line);
  void RejoinAsNew(PeerId peer);
  void OnJoinAccepted(const control::JoinAccepted& accepted);
  void OnJoinRefused(const control::JoinRefused& refused);
  void SendTrace(const control::TraceRequest& request);
  void Withdraw(PeerId peer);
  // Ends waiting joins with this reason.
  void EndJoining(const std::string& why);
  // Ends sessions: peers finish what runs until `deadline`, then leave.
  void EndSessions(TimePoint deadline, const std::string& why);
  // Out of service, by the master's order, and into it again.
  void BeginDrain();
  void EndDrain();
  // Returns false if the offer should be held and tried again.
  bool TryOffer(net::LinkOffer& offer, bool last_try);
  void TryHeldOffers(TimePoint now);
  void RefuseOffer(net::LinkOffer& offer, const Status& why);

  asio::io_context& context_;
  const net::Clock& clock_;
  DataPlaneOptions options_;
  std::string bound_;
  DataPlaneSink* control_;
  std::shared_ptr<MemoryBudget> memory_;
  std::shared_ptr<local::UserShares> shares_;
  net::LaneThreads lane_threads_;
  flow::HostFlow flow_;
  std::shared_ptr<flow::ProbeBook> probes_;
  const std::shared_ptr<collective::HostBoard> board_ = std::make_shared<collective::HostBoard>();
  InProcessDials::Peers peers_;
  InProcessDials in_process_dials_{peers_};
  std::map<std::uint64_t, Joining> joining_;  // by request id
  std::uint64_t next_request_ = 1;
  std::vector<HeldOffer> held_offers_;
  std::shared_ptr<FlightDeck> flight_deck_;
  EventLog events_{kEventsMax, Duration::max()};
  const std::shared_ptr<std::atomic<std::size_t>> retiring_ = std::make_shared<std::atomic<std::size_t>>(0);  // lanes
  net::Timer tick_;
  TimePoint tick_due_{};
  Duration tick_interval_ = std::chrono::milliseconds(100);
  bool master_up_ = false;
  std::string master_refusal_;  // since when it is not, the last one
  bool shutting_down_ = false;
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace ringway::daemon
