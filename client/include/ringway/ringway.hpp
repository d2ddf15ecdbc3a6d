// Ringway client library: collectives between trainers, over a local daemon that survives the loss of peers.
//
//   auto session = ringway::Session::Join({.group = "job", .wait_world = 4});
//   if (!session.ok()) return Fail(session.status().text());
//   auto mine = (*session)->Allocate(count * sizeof(float));  // shared memory: no copies
//   auto mean = (*session)->Allocate(count * sizeof(float));
//   auto result = (*session)->AllReduce(mine->data(), mean->data(), count, DType::kF32, ReduceOp::kAvg);
//   if (result.ok() && result->update_waits) result = (*session)->UpdateView();  // then share the state with newcomers
//
// client/examples/shortest/shortest.cc is the shortest complete trainer: without UpdateView no newcomer is admitted.
//
// C++20. Links nothing but the C++ standard library and libc. No exceptions leave the library: every call returns a
// Status or a Result<T> (ringway/result.hpp). Session says what holds for threads, rejoining and forks; Work whom the
// memory of an operation belongs to; OpOptions::stream what holds for device memory.
#pragma once

#include <ringway/types.h>
#include <ringway/version.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringway/result.hpp>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define RINGWAY_API __attribute__((visibility("default")))
#else
#define RINGWAY_API
#endif

namespace ringway {

// Version of the loaded library; compare with RINGWAY_VERSION_CODE of the header.
RINGWAY_API int Version();

using Milliseconds = std::chrono::milliseconds;
inline constexpr Milliseconds kForever = Milliseconds::max();

struct JoinOptions {
  std::string socket_path = "/run/ringway/ringwayd.sock";
  std::string group = {};
  std::string name = {};         // unique in the group, for logs and status; "" lets the daemon choose
  std::uint32_t wait_world = 0;  // required: a new group forms with at least this many peers; 1: this one alone
  std::uint32_t min_world = 1;   // below it operations fail with kWorldTooSmall (the group takes the largest asked for)
  bool fail_on_peer_loss = false;  // an operation that loses a peer fails instead of being retried; same on all peers
  // What all-reduces of sum and avg take whose options name no quorum: OpOptions::quorum, `grace` and, where they have
  // an `error_feedback`, `late`. The same quorum on all peers: operations of peers that differ in it get kMismatch.
  Quorum quorum = Quorum::All();
  Late late = Late::kDropped;
  Milliseconds grace = Milliseconds(0);
  // An operation that this rank has waited for this long fails with kDeadline, on all ranks alike; 0: none. The outcome
  // is agreed, so it may come later, or be success.
  Milliseconds op_deadline = Milliseconds(0);
  // A rank whose trainer submits nothing for this long while operations, sends or recvs of the others wait for it is
  // evicted. The group uses the longest time that a rank asks for, 1 s to 24 days; 0, never, is the longest. If more
  // than half of the ranks are that late, the others may have run ahead, and nobody is evicted. It must exceed whatever
  // one rank does while the others wait, such as writing a checkpoint.
  Milliseconds evict_hung_after = std::chrono::minutes(10);
  // Limits the whole Join, and each attempt to rejoin. Then it fails with the last known cause, such as
  // kPeerUnreachable or kMasterUnreachable, or with kTimeout if it only waited for other peers.
  Milliseconds timeout = std::chrono::minutes(5);
  // Called within Join, on its thread, when what it waits for changes. The argument is ok while it waits for other
  // peers, else a problem to fix. Not called while rejoining.
  std::function<void(const Status&)> on_waiting = {};
  // Polled by each thread that waits in a call (Join, Wait, WaitAny, AllReduce, UpdateView, Leave, or a submission
  // while the session rejoins), after a signal and every 100 ms: true ends that call with kInterrupted, as a timeout
  // would. For programs whose signal handlers only set a flag, as Python's interpreter does. Must not throw or block.
  std::function<bool()> interrupted = {};
  // How long a session that lost its daemon looks for one; 0: it ends with its daemon, with kDaemonLost or
  // kShuttingDown.
  Milliseconds reconnect = std::chrono::seconds(30);
  // False: an eviction ends the session with kEvicted.
  bool rejoin_when_evicted = true;
};

// Result of a successful operation. epoch, contributors and update_waits are the same on all ranks.
struct OpResult {
  std::uint64_t epoch = 0;  // of the view: term * 2^32 + counter; status and logs print 4294967313 as 1.17
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;  // members of the view, of which `rank` is one's place
  // Peer ids whose inputs are in the result, in rank order: all members of the view, but for those of `absent`. In a
  // broadcast or a scatter the root alone has an input, so a peer that died before it called may be among them.
  std::vector<std::uint64_t> contributors;
  // With a quorum: members whose inputs came too late, and are not in; they have the result, too. The same on all.
  std::vector<std::uint64_t> absent;
  bool is_late = false;  // this rank's is one of them
  bool is_kept = false;  // and is added to its next one of this error_feedback; false: it is dropped, or was in time
  // Later operations of the channel that went on without this rank and are done: submit as many, with any input, to
  // catch up. Each is done at once.
  std::uint64_t behind = 0;
  double weight = 0;  // the sum of the weights of the inputs; without weights their number
  // Bytes that this peer sent for the operation until its result was reported, headers and retries included. A small
  // operation is reported at once, so this may be less than it sends in all.
  std::uint64_t wire_bytes = 0;
  std::uint32_t retries = 0;
  // Newcomers or a better plan wait: call UpdateView on every rank. Collectives with a root never set it, because their
  // ranks do not all hear from each other; a Barrier does.
  bool update_waits = false;
  Algorithm algorithm = Algorithm::kRing;  // used for the result
  // No element is further from exact arithmetic than this times the largest magnitude of any contribution in its block,
  // error feedback included. It is 0 without a lossy codec, and infinite for products with one and if the result has an
  // infinity or a NaN. It holds if those magnitudes (for a sum, K times as much) are within kCodecs[codec].error by a
  // margin of this bound, and normal numbers of the dtype (for f16 with fp8, up to 57344).
  float error_bound = 0;
  Part part;  // where in the output the result is, in elements
};

// Returns parts one after the other: the sends of an AllToAllV whose input has no gaps.
inline std::vector<Part> PartsOf(const std::vector<std::size_t>& counts) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    parts.push_back({begin, count});
    begin += count;
  }
  return parts;
}

// One tensor of AllReduceMany. `input` and `output` may be equal (in place), else they may not overlap.
struct Tensor {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // elements of each
};

// A peer of the view. Texts are truncated to 63 bytes.
struct Member {
  std::uint64_t peer_id = 0;
  std::string name;  // JoinOptions::name, or what its daemon chose
  std::string site;  // its daemon's
};

struct OpOptions {
  // 0 to 63. The collectives of a channel are matched by sequence number: all ranks must submit the same sequence. A
  // channel belongs to one submitting thread. A submission takes no number if it fails with kInvalidArgument,
  // kNotSupported, kResourceExhausted, kIo, kTimeout or kInterrupted; the others then wait for this rank's next one,
  // which must be the same operation. If Wait is what reports such a refusal, the channel accepts nothing until then
  // (kResourceExhausted). Any other failure is reported to all ranks alike. The sequence restarts after kRejoined.
  std::uint32_t channel = 0;
  // How elements travel, the same on all ranks: Codec::kInt8, or with a block and a rounding of its own
  // {Codec::kInt8, 128, Rounding::kStochastic}.
  Encoding codec = Codec::kNone;
  // nullopt: the plan chooses by the size (recommended). Set it on all ranks alike or on none, else kMismatch.
  // Algorithms that would gather over 256 MiB on one rank (one_shot, naive, tree) fall back to the ring; see
  // OpResult::algorithm.
  std::optional<Algorithm> algorithm = std::nullopt;
  // 0 to 255. While collectives on several channels are in flight, this rank sends those of the highest priority first
  // and takes turns among equal ones. Every sixteenth segment to a rank is one of a lower priority, so none starves. It
  // is a rank's own choice, which helps where all ranks choose alike. Messages have no priority.
  std::uint32_t priority = 0;
  // All-reduces of sum and avg only, the same on all ranks: once so many ranks have submitted theirs, inputs whole, and
  // `grace` is over, the operation goes on without the inputs that are missing, which OpResult::absent names. Each rank
  // gets the same result; one that submits late gets it at once, and its own input is dropped or kept (`late`). It is
  // a round trip to the first rank more. A rank that misses an operation is not waited for again before it has caught
  // up. A rank more than 1024 operations behind, or whose daemon has no room for more results, is dropped, and rejoins
  // (kRejoined). OfGroup: the group's (JoinOptions), with its grace and late unless these are set here; another one,
  // All, too, stands alone.
  Quorum quorum = Quorum::OfGroup();
  // kNext: an input of this rank that comes late is added to its next one with the same `error_feedback`, which it
  // needs, once it is whole: Work::Cancel, or a deadline, gives up one that is not. What is not finite is not kept.
  // Who loads a checkpoint joins again first, or takes another name: what was kept would be added to it. For f32, f16
  // and bf16. Each rank chooses for itself.
  Late late = Late::kDropped;
  Milliseconds grace = Milliseconds(0);  // of the ranks' the longest counts; it needs a quorum
  // Weighs this rank's input in an average, 1e-15 to 1e15: the result is sum(weight * input) / sum(weight). All ranks
  // give one, or none does (0: all weigh the same). It costs the same round trip.
  double weight = 0;
  // How long the submission waits while the session rejoins, or while the daemon does not read (at most 30 s, which end
  // the membership). Then it returns kTimeout: nothing was submitted, and the call may be repeated. 0 does not wait.
  Milliseconds submit_timeout = kForever;
  // If not 0, the call submits only as this peer (Session::peer_id) and else returns kRejoined. Threads that share a
  // channel pass the peer from whose state their input was computed.
  std::uint64_t as_peer = 0;
  // Names a tensor for error feedback, in sums and averages with a codec or with late inputs that are kept. The daemon
  // keeps what encoding takes from this rank's contribution and adds it to the next contribution under the name. A
  // failed operation changes nothing, a retry uses the same residual. A new peer (kRejoined), another count or another
  // dtype begins without one. One operation at a time uses a name. The daemon keeps four bytes an element, and eight
  // more and a copy of the tensor while the operation runs; without room the call returns kResourceExhausted. Empty: no
  // feedback.
  std::string error_feedback = {};
  // cudaStream_t; null: the default stream. Input and output may each be in the memory of any GPU that the process's
  // driver knows. The input is read after what this stream holds at the submission. The result is copied to the device
  // after commit, within Wait or by a stream that waits (Work::WaitOnStream).
  //   A device that refuses before anything is submitted makes the submission fail with kIo. If it fails while an input
  // is read, all ranks cancel the operation (kDeviceFailed) and the session goes on. If it fails while a result is
  // copied, the session ends, because the other ranks go on with a result that this one lacks. CUDA needs
  // libringway-cuda.so beside this library, and a process that has loaded the driver.
  void* stream = nullptr;
};

namespace internal {
class SessionImpl;
struct WorkImpl;
struct RegionImpl;
class Source;
class Places;
class Replay;
class SharedStateImpl;
}  // namespace internal

// Shared memory that the daemon reads without a copy. Movable; returns to the session's pool when it is destroyed and
// no operation uses it. Initial contents are unspecified. Does not exist in forked children.
class RINGWAY_API Buffer {
 public:
  Buffer();
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();
  void* data() const;
  std::size_t size_bytes() const;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data());
  }

 private:
  friend class internal::SessionImpl;
  explicit Buffer(std::shared_ptr<internal::RegionImpl> region);
  std::shared_ptr<internal::RegionImpl> region_;
};

// One submitted operation. Movable; belongs to one thread at a time. May outlive the Session object, after which calls
// return kLeft. The result is in the output memory after Wait returned it, not before.
//
// Input and output belong to the operation until its Work is done or destroyed. Device memory belongs to it until Wait
// has succeeded or a stream has waited for the result; after a failure, or if the Work was destroyed, until the next
// UpdateView has succeeded. A trainer that writes to this memory earlier ends its session with kBufferModified if the
// daemon detects it, which it does if bytes differ from those that were sent or received before; the others go on
// without this peer. Bytes overwritten before they were read or first sent are not detected: the result is made of what
// was read. In either case all other ranks have the same bytes, and this rank's output is unspecified.
class RINGWAY_API Work {
 public:
  Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  // Does not wait. An unfinished operation goes on with the input as it is now (copy-on-write, so later writes do not
  // affect it); its result is dropped, and an output Buffer is unspecified. Later operations refuse such a Buffer
  // (kInvalidArgument): free it and allocate another. A device that writes to pages pinned before bypasses the
  // copy-on-write, so let it write only after Wait has returned, perhaps after Cancel.
  ~Work();

  // Blocks until the outcome is known, at most `timeout`. kTimeout is local: the operation and the buffers' ownership
  // go on, and Wait may be called again. Copies the committed result to the output where that is not shared memory of
  // the operation itself. A second Wait after success returns the same result.
  Result<OpResult> Wait(Milliseconds timeout = kForever);
  // Blocks until Wait of one of `works` would return at once, but for the copy of a result to a device, and returns the
  // index of the first such one. REQUIRES: all are of one session.
  static Result<std::size_t> WaitAny(const std::vector<Work*>& works, Milliseconds timeout = kForever);
  // Returns whether Wait would return at once. Never blocks.
  bool Test();
  // Makes a stream (cudaStream_t; null: the default one) wait for the result in device memory. What is enqueued there
  // afterwards sees the result or, if the operation fails, the output as it was (unspecified if the device failed);
  // Wait says which. Any number of streams may wait, and the Work may be destroyed before they are done.
  //   Blocks, at most `timeout` (kTimeout: call again), until the device has read the inputs of this operation and of
  // those that the session submitted before. Blocks as Wait does, and returns the outcome's error, where the stream may
  // not wait: client/README.md lists when, and why a thread must not wait for such a stream inside the driver
  // (cudaMemcpy, cudaFree) while other operations still lack their WaitOnStream or Wait. kInvalidArgument if the output
  // is in host memory.
  Status WaitOnStream(void* stream, Milliseconds timeout = kForever);
  // Asks all ranks to cancel the operation. The outcome is agreed: Wait returns kCancelled on all ranks, or success.
  Status Cancel();
  // Replaces JoinOptions::op_deadline for this operation: if it is not over `after` from now (0 to 24 days), Wait
  // returns kDeadline on all ranks, with a text that says whom this rank waited for, or success.
  Status SetDeadline(Milliseconds after);
  bool valid() const { return impl_ != nullptr; }

 private:
  friend class internal::SessionImpl;
  explicit Work(std::shared_ptr<internal::WorkImpl> impl);
  std::shared_ptr<internal::WorkImpl> impl_;
};

// One membership of one group, or one after another.
//
// Threads: any. The library has threads of its own only while a session rejoins, and for device memory.
//
// Rejoining: when the daemon stops, restarts or dies, or the others have evicted this peer, the session joins again
// through the same socket with the same options, for up to JoinOptions::reconnect, as a new peer with another peer_id,
// rank and world_size. The others admit it with their next UpdateView. Then:
//   - An operation that the old daemon committed succeeds. Wait of every other operation of the old membership returns
//     kRejoined once the session has rejoined, or its final error if that failed; Test returns false until then.
//   - Submissions (for at most OpOptions::submit_timeout) and UpdateView block while the session rejoins. The next one
//     of each channel, and the next UpdateView, submits nothing and returns kRejoined, unless its thread has got it.
//     So no input computed before the rejoin is added to the others'.
//   - Buffers keep their addresses and contents.
// A trainer that gets kRejoined drops its other Works, takes the others' state as a newcomer does, and goes on. If no
// daemon accepts the session in time, or one refuses it for good (kVersionMismatch, kInvalidArgument, kNotSupported),
// every call returns kDaemonLost or that refusal from then on.
//
// Forks: a child does not own the session. Every call there returns kForked, Buffers are not mapped, and the parent is
// undisturbed.
class RINGWAY_API Session {
 public:
  // Connects to the daemon, joins the group and returns when this peer is a member of a view.
  static Result<std::unique_ptr<Session>> Join(const JoinOptions& options);
  // Leaves without waiting if Leave was not called.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Shared memory for zero-copy operations, page-aligned, populated. The daemon checks it later: an operation in memory
  // beyond what --memory-max leaves a session fails with kResourceExhausted.
  Result<Buffer> Allocate(std::size_t bytes);

  // Each operation is submitted by its Async call, of which 256 may be in flight (kResourceExhausted beyond); the call
  // without Async waits for its outcome. If that wait is interrupted (kInterrupted), the others go on.

  // `output[i] = op over contributors of input[i]`, `count` elements each. `input` and `output` may be inside Buffers
  // of this session (no copy), any other memory (staged), or equal (in place: the copy happens in Wait, after commit).
  // Distinct ranges must not overlap. An error leaves the output unchanged, unless it is inside a Buffer other than the
  // input's, which receives the result directly: then it is unspecified.
  Result<Work> AllReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                              const OpOptions& options = {});
  Result<OpResult> AllReduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                             const OpOptions& options = {}) {
    return Finish(AllReduceAsync(input, output, count, dtype, op, options));
  }

  // Reduces each tensor as AllReduce does, all in one operation with the delays of one. All ranks pass as many tensors,
  // of the same counts, in the same order; only the sum of the counts is compared (kMismatch). The submission copies
  // the inputs together, after which they are the trainer's again; Wait copies the outputs apart. Host memory only
  // (kNotSupported). OpResult::part and error feedback treat them as one tensor.
  Result<Work> AllReduceManyAsync(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                  const OpOptions& options = {});
  Result<OpResult> AllReduceMany(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                 const OpOptions& options = {}) {
    return Finish(AllReduceManyAsync(tensors, dtype, op, options));
  }

  // `output` receives the inputs of the contributors in rank order, `count` elements of each: world_size * count in
  // all, with the result's world size, which a loss reduces. `output_count` is its capacity in elements, at least
  // count * world_size(). Input and output are disjoint. Algorithms: ring, direct.
  Result<Work> AllGatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                              const OpOptions& options = {});
  Result<OpResult> AllGather(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                             const OpOptions& options = {}) {
    return Finish(AllGatherAsync(input, count, output, output_count, dtype, options));
  }

  // As AllReduce, but each rank receives only its part of the result, at its place in the output: OpResult::part, which
  // is PartOf(count, world_size, rank) with the result's world size and rank. A loss makes the parts larger, so
  // `output` has room for all `count` elements; outside the part a Buffer is unspecified, other memory untouched.
  // Success is reported only when all ranks have their parts, whatever the size. Algorithms: ring, direct.
  Result<Work> ReduceScatterAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                  const OpOptions& options = {});
  Result<OpResult> ReduceScatter(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                 const OpOptions& options = {}) {
    return Finish(ReduceScatterAsync(input, output, count, dtype, op, options));
  }

  // The next five move data from or to one rank, or from each to each. `root` is a rank among the members that the
  // session knows (rank(), world_size(); OpResult::contributors[root] is its peer). The operation is for that peer,
  // whatever its rank is when it runs. If the root is lost, all ranks get kPeerLost, after which the session knows who
  // is left; a loss of another peer is retried without it. Success is reported only when all ranks are done, after two
  // one-way delays at least (three for Reduce and Gather). Their results never set update_waits. All else is as for
  // AllReduce; client/README.md has a table of what each does after a loss.

  // The root's `data` becomes that of all ranks. With a codec the root, too, goes on with what the others decode.
  // Algorithms: ring, direct, tree, naive.
  Result<Work> BroadcastAsync(void* data, std::size_t count, DType dtype, std::uint32_t root,
                              const OpOptions& options = {});
  Result<OpResult> Broadcast(void* data, std::size_t count, DType dtype, std::uint32_t root,
                             const OpOptions& options = {}) {
    return Finish(BroadcastAsync(data, count, dtype, root, options));
  }

  // As AllReduce, but the result is the root's alone; `output` of the others is null, or work space that may be
  // overwritten. Algorithms: ring, direct, tree, naive.
  Result<Work> ReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                           std::uint32_t root, const OpOptions& options = {});
  Result<OpResult> Reduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                          std::uint32_t root, const OpOptions& options = {}) {
    return Finish(ReduceAsync(input, output, count, dtype, op, root, options));
  }

  // As AllGather, but the result is the root's alone; `output` of the others is ignored, and null. Algorithm: direct.
  Result<Work> GatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                           std::uint32_t root, const OpOptions& options = {});
  Result<OpResult> Gather(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                          std::uint32_t root, const OpOptions& options = {}) {
    return Finish(GatherAsync(input, count, output, output_count, dtype, root, options));
  }

  // `output` receives `count` elements of the root's input, those at rank * count. `input_count` is world_size() *
  // count at the root; the others' input is ignored. The input is laid out for the world that this session knows: if
  // it runs in a smaller one, all ranks get kPeerLost. Input and output are disjoint. Algorithm: direct.
  Result<Work> ScatterAsync(const void* input, std::size_t input_count, void* output, std::size_t count, DType dtype,
                            std::uint32_t root, const OpOptions& options = {});
  Result<OpResult> Scatter(const void* input, std::size_t input_count, void* output, std::size_t count, DType dtype,
                           std::uint32_t root, const OpOptions& options = {}) {
    return Finish(ScatterAsync(input, input_count, output, count, dtype, root, options));
  }

  // Input and output have `count` elements, world_size() equal parts (kInvalidArgument if that leaves a rest): part r
  // of the input goes to rank r, part r of the output comes from it. A loss ends it as it does Scatter. Input and
  // output are disjoint. Algorithm: direct.
  Result<Work> AllToAllAsync(const void* input, void* output, std::size_t count, DType dtype,
                             const OpOptions& options = {});
  Result<OpResult> AllToAll(const void* input, void* output, std::size_t count, DType dtype,
                            const OpOptions& options = {}) {
    return Finish(AllToAllAsync(input, output, count, dtype, options));
  }

  // The next three take counts by rank: lists with an entry for each rank of the world that this session knows
  // (world_size()), else kInvalidArgument. If the operation runs in another world, all ranks get kPeerLost.

  // Rank r receives input[sends[r]], and sends what becomes the r-th part of the output: receives[r] elements, in rank
  // order without gaps. Any count may be 0, and sends may overlap. The two ranks of a pair must agree on what they
  // exchange (kMismatch); nobody needs to know what others exchange. A pair without elements exchanges nothing. Input
  // and output are disjoint. Success is reported when all ranks are done; the result never sets update_waits.
  // Algorithm: direct.
  Result<Work> AllToAllVAsync(const void* input, const std::vector<Part>& sends, void* output,
                              const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options = {});
  Result<OpResult> AllToAllV(const void* input, const std::vector<Part>& sends, void* output,
                             const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options = {}) {
    return Finish(AllToAllVAsync(input, sends, output, receives, dtype, options));
  }

  // As AllGather, but rank r contributes counts[r] elements; the same list on all ranks (kMismatch). The output has
  // their sum.
  Result<Work> AllGatherVAsync(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                               const OpOptions& options = {});
  Result<OpResult> AllGatherV(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                              const OpOptions& options = {}) {
    return Finish(AllGatherVAsync(input, output, counts, dtype, options));
  }

  // As ReduceScatter, but rank r's part has counts[r] elements, the parts one after the other; the same list on all
  // ranks (kMismatch). Input and output have their sum.
  Result<Work> ReduceScatterVAsync(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                                   ReduceOp op, const OpOptions& options = {});
  Result<OpResult> ReduceScatterV(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                                  ReduceOp op, const OpOptions& options = {}) {
    return Finish(ReduceScatterVAsync(input, output, counts, dtype, op, options));
  }

  // A message goes from one rank to another, and nobody else takes part. `to` and `from` are ranks among the members
  // that the session knows, never its own, and stay those peers. Messages of a pair, a channel and a tag are matched in
  // the order of their submission, apart from the collectives of the channel. Bytes arrive as they are: no codec.
  //
  // Success means at the receiver that `data` holds what was sent, at the sender that the receiver has it. Both get the
  // same outcome, which the receiver decides: kMismatch (another count or dtype), kCancelled or kDeadline, whichever of
  // the two asked for it. A new view without one of the two ends the message with kPeerLost; other changes of the view
  // do not disturb it. A send of over 64 KiB moves when the receiver has submitted its end. An error leaves `data` of a
  // Recv as it was, unless it is inside a Buffer: then it is unspecified.
  Result<Work> SendAsync(const void* data, std::size_t count, DType dtype, std::uint32_t to, std::uint32_t tag = 0,
                         const OpOptions& options = {});
  Result<OpResult> Send(const void* data, std::size_t count, DType dtype, std::uint32_t to, std::uint32_t tag = 0,
                        const OpOptions& options = {}) {
    return Finish(SendAsync(data, count, dtype, to, tag, options));
  }
  Result<Work> RecvAsync(void* data, std::size_t count, DType dtype, std::uint32_t from, std::uint32_t tag = 0,
                         const OpOptions& options = {});
  Result<OpResult> Recv(void* data, std::size_t count, DType dtype, std::uint32_t from, std::uint32_t tag = 0,
                        const OpOptions& options = {}) {
    return Finish(RecvAsync(data, count, dtype, from, tag, options));
  }

  // Succeeds when all ranks have submitted it, after one one-way delay.
  Result<Work> BarrierAsync(const OpOptions& options = {});
  Result<OpResult> Barrier(const OpOptions& options = {}) { return Finish(BarrierAsync(options)); }

  // Adopts the newest prepared view on all ranks at the same point. Every rank calls it, as a collective on channel 0,
  // with no other operation of its session in flight: a Work without its outcome is an error (kInvalidArgument), a
  // destroyed one is awaited. The result names the view that is current afterwards. It works below min_world, too: a
  // trainer that got kWorldTooSmall calls it until it succeeds (it fails while other ranks have submitted something
  // else under the same number). Then all ranks continue at the same sequence number of each channel, past operations
  // that failed for others and were not submitted here.
  Result<OpResult> UpdateView(Milliseconds timeout = kForever);

  // Finishes what is running, then leaves the group. Aborts a rejoin.
  Status Leave(Milliseconds timeout = std::chrono::seconds(30));
  // Leaves without waiting, from any thread: blocked calls of all threads return kLeft at once, later ones too. For a
  // watchdog, or a thread that handles signals; not async-signal-safe.
  void Abort();

  std::uint64_t peer_id() const;  // the newest membership's; never repeats
  std::uint32_t rank() const;     // in the newest view known from Join or a result
  std::uint32_t world_size() const;
  std::uint64_t epoch() const;
  // Members of the newest view known from the daemon, in rank order. Never blocks.
  Result<std::vector<Member>> Members() const;

 private:
  friend class internal::Source;
  friend class internal::Places;
  friend class internal::Replay;
  friend class internal::SharedStateImpl;
  static Result<OpResult> Finish(Result<Work> work);
  explicit Session(std::shared_ptr<internal::SessionImpl> impl);
  std::shared_ptr<internal::SessionImpl> impl_;
};

}  // namespace ringway
