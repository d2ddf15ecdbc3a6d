// The client's side of one session: slots, regions, and the waiting for outcomes.
//
//   slot:     idle -> busy -> (detached ->) idle
//   session:  alive -> ended(code, text), for good
//
// A busy slot belongs to an Operation, whose owner releases it after the outcome. A detached one has lost its owner and
// is reclaimed by a later call once the daemon has finished with it; until then its regions stay reserved.
//
// Waiting: of all threads that wait, one (the leader) reads the socket, without the lock; the others wait on the
// condition variable. Whoever gets what it waits for gives the reading to another. A slot's state is looked at before
// the session's end is: what the daemon committed before it died is still a success.
//
// Threads: any, except that an Operation belongs to one thread at a time. One mutex guards everything but the copying,
// the socket and the page; sends happen outside it. Forks: every call asks Forked() before it takes the lock.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <ringway/ringway.hpp>

#include "client/src/deadline.h"
#include "client/src/handshake.h"
#include "client/src/packet_socket.h"
#include "client/src/region_pool.h"
#include "client/src/shared_memory.h"
#include "proto/local_abi.h"

namespace ringway::internal {

// What a trainer asks for. Ranges are count * SizeOf(dtype) bytes.
struct Request {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  OpOptions options;
  OpKind kind = OpKind::kAllReduce;

  std::size_t bytes() const { return count * SizeOf(dtype); }
};

// One submitted operation, from the owner's point of view.
struct Operation {
  std::uint32_t slot = 0;
  void* copy_to = nullptr;  // null: the result is where it belongs already
  const void* copy_from = nullptr;
  std::size_t copy_bytes = 0;
  std::optional<Expected<OpResult>> outcome;  // once set, the slot is no longer this operation's
};

class SessionImpl : public std::enable_shared_from_this<SessionImpl> {
 public:
  static Expected<std::shared_ptr<SessionImpl>> Join(const JoinOptions& options);
  ~SessionImpl() = default;
  SessionImpl(const SessionImpl&) = delete;
  SessionImpl& operator=(const SessionImpl&) = delete;

  // These build the handles of ringway.hpp, whose constructors only this class may call.
  Expected<Buffer> Allocate(std::size_t bytes);
  Expected<Work> AllReduceAsync(const Request& request);

  Expected<Operation> Submit(const Request& request);
  Expected<OpResult> Wait(Operation* operation, const Deadline& deadline);
  bool Test(Operation* operation);
  Error Cancel(const Operation& operation);
  // The owner goes away; never blocks.
  void Detach(const Operation& operation);

  Expected<OpResult> UpdateView(const Deadline& deadline);
  Error Leave(const Deadline& deadline);
  // The Session object goes away: leaves without waiting.
  void Abandon();

  void ReleaseBuffer(Region* region);

  bool Forked() const { return generation_ != ForkGenerationNow(); }
  std::uint64_t peer_id() const { return peer_id_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t world_size() const { return world_size_; }
  std::uint64_t epoch() const { return epoch_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class SlotUse { kIdle, kBusy, kDetached };
  struct SlotOwner {
    SlotUse use = SlotUse::kIdle;
    Region* input = nullptr;
    Region* result = nullptr;
  };
  // Where an operation's bytes are, and what has to be copied.
  struct Placement {
    Region* input = nullptr;
    Region* result = nullptr;
    std::uint64_t input_offset = 0;
    std::uint64_t result_offset = 0;
    bool stages_input = false;
    bool copies_result = false;
  };

  SessionImpl(PacketSocket socket, SharedMemory page, const Membership& membership);
  static std::uint64_t ForkGenerationNow();
  abi::SessionPage* page() const { return reinterpret_cast<abi::SessionPage*>(page_.data()); }
  abi::Slot& slot(std::uint32_t index) const { return page()->slots[index]; }

  // session.cc: slots, waiting, the end.
  bool IsDone(std::uint32_t index) const {
    return slot(index).state.load(std::memory_order_acquire) == abi::SlotState::kDone;
  }
  Error StateError();
  Expected<std::uint32_t> TakeSlot();
  void FreeSlot(const Lock& lock, std::uint32_t index);
  void ReclaimDetached(const Lock& lock);
  // Blocks until `ready()`, which is called under the lock, the end of the session, or the deadline.
  template <typename Ready>
  Error Await(Lock* lock, const Deadline& deadline, Ready ready);
  PacketSocket::Received ReadOnce(Lock* lock, const Deadline& deadline);
  void Handle(const Lock& lock, PacketSocket::Received received, const Packet& packet);
  void End(const Lock& lock, const Error& why);
  Error SendFailed(const Error& error);
  Expected<OpResult> ReadOutcome(std::uint32_t index);
  Expected<OpResult> Finish(Operation* operation, Lock* lock);

  // submit.cc: regions, staging, submission.
  Error CheckRequest(const Request& request);
  Expected<Placement> Place(const Request& request);
  // The Buffer's region that holds all of the range at an aligned offset; null: the range must be copied.
  Expected<Region*> FindZeroCopy(const Lock& lock, const void* memory, const Request& request, const char* name) const;
  Error PlaceInput(const Request& request, Placement* placement);
  Error PlaceResult(const Request& request, Placement* placement);
  void ReleasePlacement(const Placement& placement);
  Expected<Region*> AcquireRegion(std::size_t bytes);
  Expected<Region*> CreateRegion(std::size_t class_bytes);
  bool EvictOldest(const Lock& lock);
  void TrimPool(const Lock& lock);
  Expected<Operation> SubmitPlaced(const Request& request, const Placement& placement);
  Error SendSubmit(const Request& request, const Placement& placement, std::uint32_t index, bool staged);
  Error StageInput(const Request& request, const Placement& placement, std::uint32_t index);

  const std::uint64_t generation_;
  const std::uint64_t peer_id_;
  std::atomic<std::uint32_t> rank_;
  std::atomic<std::uint32_t> world_size_;
  std::atomic<std::uint64_t> epoch_;
  PacketSocket socket_;
  SharedMemory page_;

  std::mutex mutex_;
  std::condition_variable changed_;          // a packet was handled, the leader stepped down, or the session ended
  bool reading_ = false;                     // a leader reads the socket
  bool leaving_ = false;                     // Leave was sent: nothing is submitted any more
  bool left_ = false;                        // LeaveReply came
  bool updating_ = false;                    // a thread is in UpdateView
  std::optional<Operation> pending_update_;  // an UpdateView whose wait timed out
  Error end_;                                // not ok once the session has ended
  std::array<SlotOwner, abi::kSlotCount> owners_;
  std::uint32_t next_slot_ = 0;
  RegionPool pool_;
};

struct WorkImpl {
  std::shared_ptr<SessionImpl> session;
  Operation operation;
};

struct RegionImpl {
  std::shared_ptr<SessionImpl> session;
  Region* region;
  void* data;
  std::size_t bytes;

  RegionImpl(std::shared_ptr<SessionImpl> owner, Region* held, std::size_t size_bytes)
      : session(std::move(owner)), region(held), data(held->data()), bytes(size_bytes) {}
  RegionImpl(const RegionImpl&) = delete;
  RegionImpl& operator=(const RegionImpl&) = delete;
  ~RegionImpl() { session->ReleaseBuffer(region); }
};

}  // namespace ringway::internal
