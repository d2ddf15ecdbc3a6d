// The client's side of one session: slots, regions, waiting for outcomes, and successive memberships.
//
//   slot:     idle -> busy -> (detached ->) idle
//   session:  member -> ended(code, text), for good
//               ^  |
//               |  v  the daemon went away, or the others evicted this peer: its Link has ended
//              rejoining -> ended
//
// A busy slot belongs to an Operation, whose owner releases it after the outcome. A detached one has lost its owner and
// is reclaimed by a later call once the daemon has finished with it; until then its regions stay reserved. Buffers
// among them are unshared: the daemon keeps the bytes as they were, whatever the trainer writes afterwards. They stay
// unshared for life, because another thread may be writing to another part of them, and are refused to later
// operations, which would not see what a device writes to pages pinned before.
//
// Waiting: leader/follower. One of the waiting threads (the leader) reads the socket, without the lock; the others wait
// on the condition variable. A leader whose wait is over hands the role over. A slot's state is checked before the end
// of its Link: what the daemon committed before it died is still a success.
//
// Rejoining: the thread that notices the end of the membership starts the Rejoiner. Waiting and submitting threads
// block until it is done. A success is reported as kRejoined: by operations of an earlier Link or, instead of
// submitting, by the next submission of each channel and the next UpdateView, except to a thread that already got it.
// So no thread's input from before the rejoin is combined with the state taken after it, and a thread with several
// channels takes that state once.
//
// Device memory (staging.cc): an input is copied into its region after the submission, in slices, by the device
// library, whose thread announces them. A result is copied to the device after commit, by whoever waits for it; where a
// stream does, in that stream, which the finisher releases, a thread that waits for all such operations. It must not
// enter the driver, which may be in the hands of a thread that waits for the stream.
//
// Threads: any, except that an Operation belongs to one thread at a time. One mutex guards everything but the copying,
// the socket and the page; sends happen outside it. Forks: every call asks Forked() before it takes the lock.
#pragma once

#include <atomic>
#include <bitset>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <ringway/ringway.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/deadline.h"
#include "client/src/device_part.h"
#include "client/src/link.h"
#include "client/src/region_pool.h"
#include "client/src/rejoiner.h"
#include "client/src/tensor_list.h"
#include "proto/local_abi.h"

namespace ringway::internal {

// Upper bound for sending a packet to a daemon that does not read its socket.
inline constexpr Milliseconds kSendPatience = std::chrono::seconds(30);

// Of all elements of an operation.
inline constexpr std::size_t kOperationBytesMax = std::size_t{1} << 46;

Error ForkedError();
Error LeftError();
inline Error Refuse(std::string text) { return Error(Code::kInvalidArgument, std::move(text)); }

// Pseudo-channel of UpdateView, which any thread may call.
inline constexpr std::uint32_t kUpdates = abi::kChannelCountMax;
inline std::uint32_t ChannelOf(const abi::OpSpec& spec) {
  return spec.kind == OpKind::kUpdateView ? kUpdates : spec.channel;
}

// A trainer's request. Its kind defines the operation's shape (ringway/types.h).
struct Request {
  abi::OpSpec spec{};  // what depends on the world is filled in by BindToWorld
  const void* input = nullptr;
  void* output = nullptr;
  std::uint32_t root = 0;                               // rank of the root, or of a message's other end
  std::optional<std::size_t> input_room = {};           // elements given of an input for all ranks
  std::optional<std::size_t> output_room = {};          // elements given of an output of all ranks' parts
  std::shared_ptr<const TensorList> tensors = nullptr;  // instead of input and output, which are null then
  std::vector<abi::RankCounts> counts = {};             // by rank, of kinds that HasCounts
  Milliseconds submit_timeout = kForever;
  std::uint64_t as_peer = 0;
  void* stream = nullptr;

  // Filled in by BindToWorld.
  std::size_t input_count = 0;
  std::size_t output_count = 0;   // capacity of the output
  std::optional<Part> part = {};  // what of the output is the result, where the kind HasCounts

  // Copies the input from byte `begin` on.
  void CopyInput(std::size_t begin, std::size_t bytes, std::byte* to) const {
    if (tensors != nullptr) return tensors->Gather(begin, bytes, to);
    std::memcpy(to, static_cast<const std::byte*>(input) + begin, bytes);
  }
  std::size_t input_bytes() const { return input_count * SizeOf(spec.dtype); }
  std::size_t output_bytes() const { return output_count * SizeOf(spec.dtype); }
};

// One submitted operation, from the owner's point of view.
struct Operation {
  std::shared_ptr<Link> link;  // on which it was submitted
  std::uint32_t slot = 0;
  abi::OpSpec spec{};
  std::uint64_t refusals_told = 0;  // that its number depends on
  std::size_t output_count = 0;
  std::optional<Part> part;  // of the output that is the result, where the kind HasCounts
  void* output = nullptr;
  std::shared_ptr<const TensorList> tensors;  // else the outputs
  bool copies_result = false;                 // false: the result is already in place
  std::shared_ptr<DevicePart> device;         // null: only the host's memory
  std::optional<Expected<OpResult>> read;     // the outcome, while the result is being copied to the device
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
  // How many Buffers of this size the daemon takes beside those in use.
  std::size_t RoomFor(std::size_t bytes);
  Expected<Work> Start(const Request& request);

  Expected<Operation> Submit(Request request);
  Expected<OpResult> Wait(Operation* operation, const Deadline& deadline);
  // Returns the index of the first one whose Wait would return at once.
  Expected<std::size_t> WaitAny(const std::vector<Operation*>& operations, const Deadline& deadline);
  bool Test(Operation* operation);
  // Makes a stream wait for the result. From then on the session finishes the operation.
  Error WaitOnStream(Operation* operation, device::Stream stream, const Deadline& deadline);
  Error Cancel(const Operation& operation);
  Error SetDeadline(const Operation& operation, Milliseconds after);
  // Drops the owner: the operation goes on with its input as it is now, whatever is written to it later. Blocks (until
  // the outcome) only if the system refuses to unshare a Buffer.
  void Detach(const Operation& operation);

  Expected<OpResult> UpdateView(const Deadline& deadline);
  Error Leave(const Deadline& deadline);
  Expected<std::vector<Member>> Members();
  static Expected<abi::MemberList> ReadMembers(Link& link);
  // Leaves without waiting: the Session object is destroyed, or another thread ends all waits.
  void Abandon();

  void ReleaseBuffer(Region* region);

  Deadline Within(Milliseconds timeout) const { return Deadline(timeout, &options_.interrupted); }
  bool Forked() const { return generation_ != ForkGenerationNow(); }
  std::uint64_t peer_id() const { return peer_id_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t world_size() const { return world_size_; }
  std::uint64_t epoch() const { return epoch_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Where an operation's bytes are, and what has to be copied.
  struct Placement {
    Region* input = nullptr;
    Region* result = nullptr;
    std::uint64_t input_offset = 0;
    std::uint64_t result_offset = 0;
    bool stages_input = false;
    bool copies_result = false;
    std::shared_ptr<DevicePart> device;
  };

  SessionImpl(const JoinOptions& options, std::shared_ptr<Link> link);
  static std::uint64_t ForkGenerationNow();

  // session.cc: slots, operations, leaving.
  Expected<std::uint32_t> TakeSlot(Link* link);
  void FreeSlot(const Lock& lock, Link* link, std::uint32_t index);
  void ReclaimDetached(const Lock& lock, Link* link);
  void LetGo(const Lock& lock, const Operation& operation);
  Error SendCancel(const Operation& operation, const Deadline& deadline);
  // Tells the daemon something about an operation in flight, whose slot is filled in.
  template <typename Packet>
  Error SendAbout(const Operation& operation, Packet packet, const Deadline& deadline);
  // The same for the operation's owner.
  template <typename Packet>
  Error Ask(const Operation& operation, const Packet& packet);
  // Unshares the Buffers of an unfinished operation. Returns false if the system refuses.
  static bool Unshare(const Link& link, std::uint32_t index);
  // Blocks until no operation without an owner, and no copy, is under way.
  Error AwaitDetached(Lock* lock, Link* link, const Deadline& deadline);
  // Copies the result to the output unless it is in place: without the lock, while the slot keeps the regions.
  static Error CollectResult(const Operation& operation, const Part& part, Lock* lock);
  // Returns whether the slot holds the outcome. A stopping daemon's refusal is none: it is reported as kRejoined.
  bool IsSettled(const Operation& operation) const;
  // Returns whether Wait would return at once, but for the copy of the result to a device. Under the lock.
  bool IsReady(const Operation& operation) const;
  Expected<OpResult> ReadOutcome(const Operation& operation);
  // The world that an outcome names.
  void LearnOf(const Operation& operation, const abi::Outcome& outcome, const std::vector<std::uint64_t>& members);
  // REQUIRES: the slot is settled, or `loss` says why it will not be.
  Expected<OpResult> Finish(Operation* operation, Lock* lock, const Error& loss);
  void Refused(const Lock& lock, const Operation& operation);
  // Called when something else is submitted: then nobody waits for the update any more.
  void DropPendingUpdate(const Lock& lock);
  // Ends the session. REQUIRES: it is rejoining.
  void GiveUpRejoining(Lock* lock);

  // membership.cc: waiting, the loss of the daemon, rejoining.
  Error StateError();
  // Returns the membership for this thread to submit on this channel, or to update the view (kUpdates). Blocks while
  // the session rejoins; kRejoined if that has yet to be reported. REQUIRES: channel <= kUpdates.
  Expected<std::shared_ptr<Link>> Enter(std::uint32_t channel, const Deadline& deadline);
  // Returns whether the session rejoins after a membership that ended with `code`.
  bool MayRejoinAfter(Code code) const;
  // Returns whether operations of this membership may still get their outcome.
  bool IsOpen(const Link& link) const { return link.end.ok() || (rejoining_ && &link == link_.get()); }
  // Returns the error of operations whose membership is not open: the session's end, or kRejoined, which counts as
  // reported to this thread.
  Error TellLoss(const Lock& lock);
  Error Tell(const Lock& lock, const Error& error);
  Error LossOf(const Lock& lock) const;
  enum class Waited { kChange, kTimeout, kInterrupted };
  // kChange: check again.
  Waited WaitForChange(Lock* lock, const Deadline& deadline);
  Waited ReadForChange(Lock* lock, Link* link, const Deadline& deadline);
  // Polls `interrupted`, if that is due, without the lock. Returns true to end the call.
  static bool AskedMeanwhile(Lock* lock, const Deadline& deadline);
  // Blocks until `ready()`, which is called under the lock, the end of `link`, the deadline or an interruption.
  Error Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& ready);
  PacketSocket::Received ReadOnce(Lock* lock, Link* link, const Deadline& deadline);
  void Handle(const Lock& lock, Link* link, PacketSocket::Received received, const Packet& packet);
  void End(const Lock& lock, Link* link, const Error& why);
  static void UnshareUnfinished(const Lock& lock, const Link& link);
  // A send failed with this error: ends the membership, with the daemon's reason if there is one. Does not wait for the
  // rejoin.
  void Lose(Link* link, const Error& error);
  // The same for a submission: returns its error, once the session has rejoined or failed to.
  Error SendFailed(Link* link, const Error& error, const Deadline& deadline);
  void Install(const Lock& lock, std::shared_ptr<Link> link);
  void Rejoined(Expected<std::shared_ptr<Link>> found);

  // bind_to_world.cc: what a request may ask for, and what depends on the world.
  static Error CheckRequest(const Request& request);
  // Fills in what depends on the world, of the newest view that the session knows, and checks the buffers by it.
  Error BindToWorld(Request* request);
  // `members`: peer ids in rank order, at least one.
  Error LayFor(const std::vector<std::uint64_t>& members, Request* request) const;
  // By the counts of each rank.
  Error LayCounts(Request* request, const std::vector<std::uint64_t>& members) const;
  static Error CheckBuffers(const Request& request, bool has_result);

  // submit.cc: regions, staging, submission.
  Expected<Placement> Place(const Request& request);
  struct Memory {
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t element_bytes = 1;
    const char* name = "";
  };
  // Returns the Buffer's region that holds all of the memory at an aligned offset; null: the memory must be copied.
  Expected<Region*> FindZeroCopy(const Lock& lock, const Memory& memory) const;
  Error PlaceInput(const Request& request, Placement* placement);
  Error PlaceResult(const Request& request, Placement* placement);
  void ReleasePlacement(const Placement& placement);
  Expected<Region*> AcquireRegion(std::size_t bytes, bool for_buffer);
  Expected<Region*> CreateRegion(std::size_t class_bytes);
  // Makes the region known to the link's daemon unless it is. REQUIRES: the caller uses the region.
  Error Register(Link* link, Region* region, const Deadline& deadline);
  // Returns false, and the daemon still knows the region, if the socket is full. REQUIRES: no other thread uses it.
  bool Unregister(const Lock& lock, Link* link, Region* region);
  bool EvictOldest(const Lock& lock);
  void TrimPool(const Lock& lock);
  Expected<Operation> SubmitPlaced(const Request& request, const Placement& placement,
                                   const std::shared_ptr<Link>& link, const Deadline& deadline);
  static std::uint64_t RefusalsTold(const Lock& lock, const Link& link, const Request& request);
  Error SendSubmit(const Request& request, const Placement& placement, const Operation& operation, bool staged,
                   const Deadline& deadline);
  void StageInput(const Request& request, const Placement& placement, const Operation& operation);
  // Announces how much of an input is staged. Only the last announcement must arrive.
  Error SendProgress(Link* link, std::uint32_t slot, bool is_last);

  // staging.cc: device memory.
  // Reports go to OnInput. REQUIRES: the operation is submitted.
  void CopyInput(const Request& request, Region* region, const Operation& operation);
  void OnInput(const Operation& operation, Region* region, std::size_t arrived, std::size_t bytes, const Error& error);
  void BeginCopy(const Lock& lock, const Operation& operation, Region* region);
  void EndCopy(const Lock& lock, const DevicePart* part, Region* region);
  void WakeAll(const Lock& lock);
  // Starts to copy a result that there is. Reports go to OnOutput. REQUIRES: the operation is settled.
  void CopyOutput(Lock* lock, Operation* operation);
  void OnOutput(const Operation& operation, Region* region, bool is_last, const Error& error);
  void GiveUpHungOutput(const Lock& lock, DevicePart* part) const;
  // Those that nobody waits for: ends the session, for memory of theirs may yet be written.
  void GiveUpHungCopies(const Lock& lock, Link* link);
  // Blocks until the result has been copied, or will not be; an error only if the deadline came first.
  Error AwaitOutput(Lock* lock, Operation* operation, const Deadline& deadline);
  // Blocks until `ready()`, which the finisher brings about however the membership ends, the deadline or an
  // interruption.
  Error AwaitFinisher(Lock* lock, const Deadline& deadline, const std::function<bool()>& ready);
  Expected<OpResult> AwaitDeferred(Lock* lock, const Operation& operation, const Deadline& deadline);
  // Of an operation that the session has finished. REQUIRES: its outcome is an error.
  Error TellDeferred(const Lock& lock, const Operation& operation);
  // Blocks until the inputs of this operation and of all that was submitted before have been read, or it is decided.
  Error AwaitInputs(Lock* lock, const Operation& operation, const Deadline& deadline);
  // From here on the finisher has it.
  Error Defer(Lock* lock, const Operation& operation, std::shared_ptr<device::Hold> hold);
  bool MayAdvance(const Operation& operation) const;
  // Of a deferred operation that is settled or lost: copies the result out, then ends the streams' wait.
  void Advance(Lock* lock, const std::shared_ptr<DevicePart>& part);
  std::list<Operation>::iterator FindDeferred(const DevicePart& part);
  void EndDeferred(Lock* lock, DevicePart* part);
  Error StartFinisher(const Lock& lock);
  // The finisher's thread: until the session has ended, or for a while nothing was deferred.
  void FinishDeferred();

  const JoinOptions options_;
  const std::uint64_t generation_;
  std::atomic<std::uint64_t> peer_id_ = 0;
  std::atomic<std::uint32_t> rank_ = 0;
  std::atomic<std::uint32_t> world_size_ = 0;
  std::atomic<std::uint64_t> epoch_ = 0;
  std::vector<std::uint64_t> members_;  // peer ids in rank order, of that epoch; under mutex_

  std::mutex mutex_;
  std::condition_variable
      changed_;                 // a packet was handled, the leader stepped down, a link came or ended, or the session
  std::shared_ptr<Link> link_;  // the newest membership
  std::mutex registering_;      // one Register at a time; before mutex_
  bool rejoining_ = false;      // link_ has ended and the Rejoiner looks for the next
  Error lost_;                  // why the previous membership ended
  // Channels (and kUpdates) not used since the last rejoin, and the threads to which it was reported.
  std::bitset<abi::kChannelCountMax + 1> untold_;
  std::set<std::uint64_t> told_;
  bool leaving_ = false;                     // Leave was sent: submissions are refused
  bool left_ = false;                        // LeaveReply came
  bool updating_ = false;                    // a thread is in UpdateView
  std::optional<Operation> pending_update_;  // an UpdateView whose wait timed out
  Error end_;                                // not ok once the session has ended
  RegionPool pool_;
  std::list<std::shared_ptr<DevicePart>> copies_;  // between host and device, in flight; of all memberships
  std::list<Operation> deferred_;                  // for which streams wait
  std::uint64_t device_operations_ = 0;            // submitted so far
  bool has_finisher_ = false;  // a thread, which keeps the session until it has ended, finishes them
  Rejoiner rejoiner_;          // the last member: its thread uses the others
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
