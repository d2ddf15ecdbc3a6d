// One agreement::Peer with everything that it owns in the world: its links, its trainer's session.
//
// Carries events in and actions out. After every event it runs a loop, never a recursion:
//
//   event --> Run:  [ carry out actions until there are none --> give segments to idle lanes ] until nothing moves
//
// Segments are given at most kPumpBytes a turn; then lanes that are readable and control links get theirs. Large ones
// that wait for their pair's pace are an event of their own when the wait is over.
//
// Threads: one (data thread). Lifetime: owned by the data plane; destroyed after OnPeerEnded, never from within a call.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agreement/peer.h"
#include "daemon/flow/host_flow.h"
#include "daemon/flow/prober.h"
#include "daemon/links/dial_tracker.h"
#include "daemon/local/trainer_session.h"
#include "daemon/net/control_link.h"
#include "daemon/net/dialer.h"
#include "daemon/net/in_process_control.h"
#include "daemon/net/in_process_lane.h"
#include "daemon/net/lane.h"
#include "daemon/net/lane_threads.h"
#include "daemon/net/listener.h"
#include "daemon/runtime/live_rates.h"
#include "daemon/runtime/op_times.h"
#include "daemon/runtime/pair_transport.h"
#include "daemon/runtime/peer_flight.h"
#include "proto/clock.h"
#include "proto/stream/timer.h"

namespace ringway::daemon {

// The interface through which a runtime calls the data plane.
class RuntimeSink {
 public:
  virtual ~RuntimeSink() = default;
  virtual void SendToMaster(control::ToMaster message) = 0;
  // Answered with PeerRuntime::OnDialed and the same serial.
  virtual void Dial(net::DialRequest request, std::uint64_t serial) = 0;
  virtual void Log(const agreement::Note& note, PeerId self, const std::string& group) = 0;
  virtual void OnPeerEnded(PeerId self) = 0;
  virtual flow::HostFlow& flow() = 0;
  // For later lanes. On any thread.
  virtual void Keep(net::KeptConnection kept) = 0;
  // Counts a lane that retires, until what is returned is gone (on any thread); null: too many do.
  virtual std::shared_ptr<void> CountRetiring() = 0;
};

struct RuntimeOptions {
  PeerId self;
  control::JoinRequest join;      // what it came from
  Duration grace{};               // how long a leaving peer may finish what is open
  std::uint64_t probe_bytes = 0;  // to spend at most on each probe of a path that leaves this host
  std::shared_ptr<flow::ProbeBook> probes = nullptr;
  agreement::Home home = {};
  std::shared_ptr<collective::HostBoard> board = nullptr;
  std::shared_ptr<FlightDeck> flight = nullptr;  // null: nothing is recorded
};

// A connection that stands, whoever dialled it.
struct StandingLink {
  links::LinkId id;
  links::LinkTerms terms;
  std::unique_ptr<net::Stream> stream;
  std::string answer;  // to be written first: the LinkReply of an accepted connection
};

inline links::LinkId LaneOf(PeerId other, LaneId lane) { return {.other = other, .control = false, .lane = lane}; }

class PeerRuntime final : public net::LaneSink, public net::ControlSink, public local::RequestSink {
 public:
  PeerRuntime(asio::io_context& context, net::LaneThreads& lane_threads, RuntimeSink* sink, RuntimeOptions options,
              std::shared_ptr<local::TrainerSession> session);
  ~PeerRuntime() override;
  PeerRuntime(const PeerRuntime&) = delete;
  PeerRuntime& operator=(const PeerRuntime&) = delete;

  // ---- from the master; messages are for this peer
  void OnMasterMessage(const control::FromMaster& message);
  void OnMasterBack();
  // ---- links
  Status Admit(const links::LinkId& link, const links::LinkTerms& terms, const Identity* who) const {
    return peer_.Admit(link, terms, who);
  }
  void AddLink(StandingLink link);
  void OnDialed(std::uint64_t serial, Result<net::DialedLinks> outcome);
  // Returns whether the links that another peer of this daemon dials are wanted.
  Status AdmitInProcess(const net::DialRequest& request) const;
  // Answers its dial: both ends of the links stand. REQUIRES: `to` has admitted them.
  void ConnectInProcess(std::uint64_t serial, const net::DialRequest& request, PeerRuntime& to);
  // ---- time and the end
  // Reports to the host's probers, before any peer's Tick, whether it has operations in flight.
  void NoteWork(TimePoint now) { peer_.NoteWork(now); }
  void Tick(TimePoint now);
  // Applies the rates to the pairs, after the host's flow control has decided them.
  void KeepPace();
  // Leaves by `deadline`, because the daemon stops or is drained; the trainer gets `why`.
  void ShutDown(TimePoint deadline, const std::string& why);

  const std::string& group() const { return options_.join.group(); }
  // The join and the session of a peer that never had a view, for the peer that replaces it.
  const control::JoinRequest& join() const { return options_.join; }
  const std::shared_ptr<local::TrainerSession>& session() const { return session_; }
  agreement::PeerStatus status() const;
  std::vector<PairStatus> pairs();
  // Returns the number of lanes with connections, including those that are being dialled.
  std::size_t lanes_open() const;
  const LiveRates& live() const { return live_; }
  // Returns the counters that go to the master with the heartbeats.
  control::PeerCounters counters() const;

  // ---- net::LaneSink
  Result<links::Inbound> OnLaneHeader(const links::LinkId& lane, const SegmentHeader& header) override;
  Status OnLanePayload(const links::LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) override;
  bool IsAttemptLive(std::uint64_t attempt) override { return peer_.IsLive(attempt); }
  void OnLaneIdle() override;
  void OnLaneClosed(const links::LinkId& lane, const std::string& why) override;
  // ---- net::ControlSink
  Status OnControlMessage(PeerId from, const control::PeerMessage& message) override;
  void OnControlClosed(PeerId other, const std::string& why) override;
  // ---- local::RequestSink
  Status Submit(buffers::Submission submission) override;
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) override;
  void Cancel(std::uint64_t token) override;
  void SetDeadline(std::uint64_t token, Duration after) override;
  void OnStateTaken(PeerId newcomer) override;
  void Leave() override;
  void OnTrainerGone(bool inputs_whole) override;

 private:
  static constexpr std::size_t kPumpBytes = 256 << 10;

  void Run();
  void RunLater();
  void WorkLater();
  void CarryOutActions();
  void CarryOut(agreement::ToPeer& action);
  void CarryOut(agreement::ToMaster& action);
  void CarryOut(links::Dial& action);
  void CarryOut(links::CloseLinks& action);
  void CarryOut(agreement::Complete& action);
  void CarryOut(agreement::Joined& action);
  void CarryOut(agreement::StillPending& action);
  void CarryOut(agreement::StateHeld& action);
  void CarryOut(agreement::NewcomerAsks& action);
  void CarryOut(agreement::Ended& action);
  void CarryOut(agreement::Note& action);
  // Returns whether it stopped at its budget.
  bool Pump();
  void PumpIn(Duration wait);
  // Follows them every TailProbe::kTick while a lane has one.
  void ArmTails();
  // Returns whether a lane still has one.
  bool FollowTails();
  // Returns how many bytes the lane got.
  std::size_t Give(net::Lane& lane, TimePoint now);
  PairTransport& PairWith(PeerId other);
  void AddControl(StandingLink link, bool within_host);
  void AddLane(StandingLink link);
  void AddInProcess(const links::LinkId& link, const links::LinkTerms& terms,
                    const std::shared_ptr<net::InProcessControl>& control);
  void AddInProcess(const links::LinkId& link, const links::LinkTerms& terms,
                    const std::shared_ptr<net::InProcessLane>& lane);
  void OnStands(const links::LinkId& link, const links::LinkTerms& terms);
  // The dial is answered, and what it opened is taken.
  void ReportDial(const links::DialTracker::Verdict& verdict);
  void FlushLinks();
  Status WhyFor(Code code, const std::string& text) const;
  void LogOutcome(const agreement::Complete& action) const;
  // Sends the session the members of the view, unless it has them.
  void NameMembers();
  // Samples the pairs that carried anything since the last call: one system call per lane.
  void SamplePaths(TimePoint now);
  void LookAtRates(TimePoint now);
  // Closes the lane: what it carries goes to the others, and it is opened again.
  void GiveUp(const links::LinkId& lane, const char* why);

  asio::io_context& context_;
  const net::Clock& clock_;
  net::LaneThreads& lane_threads_;
  RuntimeSink* sink_;
  RuntimeOptions options_;
  std::shared_ptr<local::TrainerSession> session_;
  agreement::Peer peer_;
  daemon::OpTimes times_;
  DurationCounts durations_;  // of operations that succeeded
  LiveRates live_;
  PeerFlight flight_;
  std::map<PeerId, PairTransport> pairs_;
  std::vector<std::shared_ptr<net::ControlLink>> to_flush_;
  links::DialTracker dials_;
  Epoch named_;
  std::string why_shut_down_;  // empty: it goes on
  bool running_ = false;       // Run is on the stack
  bool run_again_ = false;     // an event came while it was
  bool run_posted_ = false;
  bool work_posted_ = false;
  bool ended_ = false;
  net::Timer pace_timer_;
  net::Timer tail_timer_;
  bool tails_armed_ = false;
  std::optional<TimePoint> pump_due_;    // when it ends
  PeerId last_given_;                    // a large segment; who comes after it is the first of the next turn
  std::shared_ptr<PeerRuntime*> alive_;  // what posted handlers hold; null inside once this object is gone
};

}  // namespace ringway::daemon
