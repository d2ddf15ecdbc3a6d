// One trainer's connection: receives its packets, checks everything, and reports what its peer says.
//
//   new --Hello+page--> greeted --Join--> joining --Joined--> member --Leave--> leaving --> over
//    |                     |                 |                   |
//    +--Hello, no page--> status client      +--- protocol error, End, or the trainer's death, anywhere ---> over
//
//   event                                   effect
//   its user has its share of sessions, or  the session ends at once
//   of files that cannot be closed
//   new, greeted or status client silent    the session ends, for it holds descriptors
//   for `quiet_max`, or without a join for
//   `idle_max`
//   hello with a page, of a user who may    the session ends; no page is mapped
//   join no group
//   its user joins too often                the join waits for its turn (UserShares)
//   a descriptor of a file not in memory    a protocol error; it is closed without blocking this thread
//   protocol error                          the trainer gets Ended{kProtocol} and loses this session, nothing else
//   the socket ends, or the process exits   the peer learns whether all inputs were whole; session, page and regions
//   (a forked child may hold the socket)    live until the peer has ended
//
// Threads: one (data thread). Lifetime: shared; its handlers, the server and the peer's runtime hold it. `host`
// outlives it; `port` is set by Attach and must live until Detach.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/buffers/submission.h"
#include "daemon/buffers/trainer_buffers.h"
#include "daemon/local/packet.h"
#include "daemon/local/pre_auth_limiter.h"
#include "daemon/local/region.h"
#include "daemon/local/submit_check.h"
#include "daemon/local/user_shares.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/local_abi.h"
#include "proto/memory_budget.h"
#include "proto/result.h"
#include "proto/stream/timer.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

// The peer of a session, as the session sees it.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual Status Submit(buffers::Submission submission) = 0;
  virtual void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) = 0;
  virtual void Cancel(std::uint64_t token) = 0;
  // Replaces the operation's time limit, from now.
  virtual void SetDeadline(std::uint64_t token, Duration after) = 0;
  virtual void OnStateTaken(PeerId newcomer) = 0;
  virtual void Leave() = 0;
  // The trainer gets no more replies. inputs_whole: every open operation can be finished for the others.
  virtual void OnTrainerGone(bool inputs_whole) = 0;
};

struct JoinOrder {
  std::string group;
  std::string name;
  std::uint32_t wait_world = 1;
  std::uint32_t min_world = 1;
  bool fail_on_peer_loss = false;
  std::uint32_t hung_ms = 0;
};

class TrainerSession;

class SessionSink {
 public:
  virtual ~SessionSink() = default;
  // Returns Ok if the session's user may join the group, or, without one, any group at all.
  virtual Status MayJoin(const TrainerSession& session, const std::optional<std::string>& group) = 0;
  // Answer with JoinRefused, or Attach and Joined.
  virtual void OnJoin(const std::shared_ptr<TrainerSession>& session, const JoinOrder& order) = 0;
  // The session has ended; a pending join must not be answered any more.
  virtual void OnSessionOver(const std::shared_ptr<TrainerSession>& session) = 0;
  virtual std::string StatusJson() = 0;
  // What the flight recorder holds of the newest operations of a group (proto/flight/layout.h); empty: there is none.
  virtual std::string FlightImage(const std::string& group, std::uint32_t last) = 0;
  // Identifies this daemon process.
  virtual std::uint64_t Instance() const = 0;
};

struct JoinOutcome {
  PeerId peer;
  Epoch epoch;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
};

struct SessionLimits {
  std::uint64_t region_bytes_max = 0;  // of all regions of a session together; 0: its share of the daemon's memory
  Duration quiet_max = std::chrono::seconds(5);  // silence of a client that has not asked to join
  Duration idle_max = std::chrono::seconds(30);  // of such a client, whatever it says
};

class TrainerSession : public std::enable_shared_from_this<TrainerSession> {
 public:
  // `reclaimer`: frees its regions; null: they are freed in place. `memory`: the daemon's budget; null: no limit.
  // `limiter`: rate limit of all sessions that are not members; null: none. `users`: what its user may have; null: no
  // limit.
  TrainerSession(asio::io_context& context, SessionSink* sink, const SessionLimits& limits,
                 ReclaimerPtr reclaimer = nullptr, std::shared_ptr<MemoryBudget> memory = nullptr,
                 const std::shared_ptr<PreAuthLimiter>& limiter = nullptr, std::shared_ptr<UserShares> users = nullptr);
  ~TrainerSession();

  // Takes an accepted, non-blocking SOCK_SEQPACKET connection. Ends at once what its user has no share left for.
  Status Start(net::UniqueFd fd);

  // ---- from the host
  void Attach(RequestSink* requests) { requests_ = requests; }
  void Detach() { requests_ = nullptr; }
  void JoinProgress(Code code, const std::string& text);
  void JoinRefused(const Status& why);
  void Joined(const JoinOutcome& joined);
  // The newcomer `self` may take these members' state.
  void HoldForState(PeerId self, const std::vector<PeerId>& members);
  void NameNewcomer(PeerId newcomer, bool asks);
  // The view's members in rank order. REQUIRES: called before any Complete of that view.
  void NameMembers(Epoch epoch, std::span<const control::PeerInfo> members);
  // Publishes the outcome in shared memory at once; Flush rings the doorbell, once for a batch.
  void Complete(const buffers::Complete& complete);
  void Flush();
  // Handles the packets that the trainer has already sent.
  void ReadPending();
  // Ends the session, with LeaveReply for kLeft after a Leave, otherwise with Ended. Does not call the RequestSink.
  void End(Code code, const std::string& text);

  bool open() const { return socket_.is_open(); }
  bool takes_state() const { return takes_state_; }
  std::uint32_t pid() const { return pid_; }
  // The user that its process ran as when it connected, as the kernel says; nothing if it did not.
  std::optional<std::uint32_t> user() const { return user_; }
  // The same for its shares.
  const HostUser& host_user() const { return host_user_; }
  // Returns the share of the daemon's memory for the session and its peer.
  const std::shared_ptr<MemoryShare>& memory() const { return memory_; }

 private:
  enum class State : std::uint8_t { kNew, kGreeted, kStatusOnly, kJoining, kMember, kLeaving, kOver };
  struct SlotUse {
    bool in_use = false;
    std::uint64_t input_bytes = 0;
    std::uint64_t staged_bytes = 0;
  };
  static constexpr int kPacketsATurn = 64;
  static constexpr std::size_t kQueueBytesMax = 4 << 20;

  Status TakeShares();
  void ArmRead();
  void ArmQuiet();
  void WatchProcess();
  void ReadTurn();
  int PacketsATurn() const;
  void ReadOn(int packets_max);
  bool ReadAll(int packets_max);
  // Closes what no handler took, off this thread where that may take long.
  void Discard(ReceivedPacket& packet);
  // Returns whether its user has sent files that cannot be closed.
  bool IsBarred() const;
  bool IsStranger() const { return state_ < State::kMember; }
  bool AsksForNothing() const { return state_ <= State::kStatusOnly; }
  void Refuse(const Status& why);
  Status OnPacket(ReceivedPacket& packet);
  Status OnHello(const ReceivedPacket& packet);
  Status OnJoin(std::span<const std::byte> bytes);
  // Hands the join to the host when it is its user's turn.
  void JoinInTurn(JoinOrder order);
  Status OnRegister(ReceivedPacket& packet);
  // Checks that operations may use the region, and charges it. An error may be temporary: its owner has not populated
  // it, or there is no room for it now.
  Status MakeUsable(Region& region);
  // Bytes of registered regions for which there was no room yet.
  std::uint64_t UnchargedBytes() const;
  std::uint64_t UnchargedMax() const;
  Status OnUnregister(std::span<const std::byte> bytes);
  Status OnSubmit(std::span<const std::byte> bytes);
  Status OnProgress(std::span<const std::byte> bytes);
  Status OnCancel(std::span<const std::byte> bytes);
  Status OnSetDeadline(std::span<const std::byte> bytes);
  Status OnStateTaken(std::span<const std::byte> bytes);
  Status OnLeave(std::span<const std::byte> bytes);
  Status OnStatus(std::span<const std::byte> bytes);
  Status OnTrace(std::span<const std::byte> bytes);
  // Answers a status client in as many packets as the text takes.
  Status Answer(const std::string& text);
  // Returns Ok if the trainer knows of all refusals that its sequence numbers depend on.
  Status CheckRefusalsKnown(const abi::Submit& submit) const;
  void Refuse(const abi::Submit& submit, const Status& why);
  Status MapRanges(const abi::Submit& submit, const SubmitVerdict& verdict, buffers::TrainerBuffers::Places& places);
  void RaiseStaged(std::uint32_t slot);
  abi::SessionPage& Page();
  abi::Slot& SlotAt(std::uint64_t token);
  void TrainerGone();
  void GoOver();
  template <typename T>
  void SendStruct(const T& packet) {
    Send(std::as_bytes(std::span(&packet, 1)));
  }
  void Send(std::span<const std::byte> bytes);
  void SendQueued();
  void CloseSocket();

  asio::io_context& context_;
  SessionSink* sink_;
  SessionLimits limits_;
  ReclaimerPtr reclaimer_;
  std::shared_ptr<MemoryBudget> budget_;
  std::shared_ptr<UserShares> users_;
  std::shared_ptr<MemoryShare> memory_;  // since Start
  std::weak_ptr<PreAuthLimiter> limiter_;
  RequestSink* requests_ = nullptr;
  State state_ = State::kNew;
  PeerId peer_;  // of a member
  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor process_;
  net::Timer quiet_;
  TimePoint idle_until_{};
  net::Timer turn_;  // of its join
  bool waits_for_turn_ = false;
  std::uint32_t pid_ = 0;
  std::optional<std::uint32_t> user_;
  HostUser host_user_;
  PoolCharge session_;      // as long as this lives
  PoolCharge descriptors_;  // while its socket is open
  Duration op_deadline_{};

  std::shared_ptr<const Mapping> page_;
  std::array<SlotUse, abi::kSlotCount> slots_{};
  std::array<std::uint64_t, abi::kChannelCountMax> refusals_{};  // of each channel's submissions
  std::map<std::uint32_t, Region> regions_;
  std::deque<std::vector<std::byte>> queue_;  // replies for which the socket had no room
  std::size_t queue_bytes_ = 0;
  bool doorbell_due_ = false;
  bool takes_state_ = false;
};

}  // namespace ringway::local
