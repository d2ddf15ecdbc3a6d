// Ringway client library: collectives between trainers, over a local daemon that survives the loss of peers.
//
//   auto session = ringway::Session::Join({.group = "job", .wait_world = 4});
//   if (!session.ok()) return Fail(session.error().text());
//   auto mine = (*session)->Allocate(count * sizeof(float));  // shared memory: no copies
//   auto mean = (*session)->Allocate(count * sizeof(float));
//   auto result = (*session)->AllReduce(mine->data(), mean->data(), count, DType::kF32, ReduceOp::kAvg);
//   if (result.ok() && result->update_waits) result = (*session)->UpdateView();  // then share the state with newcomers
//
// client/examples/shortest/shortest.cc is the shortest complete trainer: without UpdateView no newcomer is admitted.
//
// C++20. Links nothing but the C++ standard library and libc. No exceptions leave the library: every call returns an
// Error or an Expected<T> with a code (ringway/types.h) and a sentence.
//
// Threads: a Session may be used from several threads; operations submitted on one channel are ordered by submission,
// so a channel belongs to one submitting thread. A Work belongs to one thread at a time. The library has threads of its
// own only while a session rejoins, and for device memory.
//
// Rejoining: when the session's daemon stops, restarts or dies, or the others have evicted this peer, the session
// reconnects to a daemon on the same socket, for up to JoinOptions::reconnect, and joins again with the same options:
// as a new peer with another peer_id, rank and world_size, which the others admit with their next UpdateView. Then:
//   - An operation that the old daemon committed succeeds. For every other operation of the old membership Wait returns
//     kRejoined once the session has rejoined, or its final error if that failed; Test returns false until then.
//   - AllReduce, AllReduceAsync (for at most OpOptions::submit_timeout) and UpdateView block while the session rejoins.
//     The next call on each channel, and the next UpdateView, submits nothing and returns kRejoined, unless its thread
//     has already received it, there or from Wait. So each channel's thread gets it, and no input computed before the
//     rejoin is added to the others'. If threads share a channel, pass OpOptions::as_peer.
//   - Buffers keep their addresses and contents.
// A trainer that gets kRejoined drops its other Works, takes the others' state as a newcomer does, and goes on. If no
// daemon accepts the session in time, every call returns kDaemonLost or the last refusal from then on; permanent
// refusals (kVersionMismatch, kInvalidArgument, kNotSupported) are not retried. Leave and destroying the Session abort
// a rejoin at once.
//
// Fork: a child process does not own the session: every call there returns kForked, and the parent is undisturbed. The
// memory of Buffers is not mapped in the child.
//
// Ownership: Buffer and Work keep the parts of the session that they need alive; they may outlive the Session object,
// after which calls return kLeft. Input and output belong to the operation until its Work is done or destroyed.
// Destroying it does not wait: an unfinished operation continues with the input as it is then, copy-on-write, so later
// writes do not affect it. A Buffer of such an operation is refused to later ones (kInvalidArgument): free it and
// allocate another. Copy-on-write does not cover a device that writes to pages pinned before: let it write only after
// Wait (perhaps after Cancel) has returned.
//
// Device memory: input and output may be in the memory of a GPU, any that its driver knows, each by itself. The input
// is read after what OpOptions::stream holds at the submission. It belongs to the operation until Wait has succeeded,
// or a stream has waited for the result; else, as after a failure or where the Work was destroyed, until the next
// UpdateView has succeeded. The result is copied to the device after commit, within Wait or by a stream that waits. A
// device that refuses before anything is submitted is an error of the submission (kIo). If it fails later
// (kDeviceFailed) while an input is read, the operation is cancelled on all ranks, and the session goes on; while a
// result is copied to it, the session ends: this rank has missed what the others go on with. CUDA is used if the
// process has loaded its driver, through libringway-cuda.so, which has to be installed beside this library.
//
// Writing to memory of an operation in flight ends the session with kBufferModified if it is detected, that is, if
// bytes differ from what was sent or received before; the others go on without this peer. Bytes overwritten before they
// were read or first sent are not detected: the result is made of what was read, and an output may enter the sum. In
// either case all other ranks have the same bytes; this rank's output is unspecified.
#pragma once

#include <ringway/types.h>
#include <ringway/version.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
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

// Outcome of a call: a code and, unless ok, a sentence with advice.
class [[nodiscard]] Error {
 public:
  Error() = default;
  Error(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

// A value or the Error that prevented it.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): a value is a result
  Expected(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): so is a failure
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok().
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error error() const { return ok() ? Error() : std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct JoinOptions {
  std::string socket_path = "/run/ringway/ringwayd.sock";
  std::string group = {};
  std::string name = {};         // unique in the group, for logs and status; "" lets the daemon choose
  std::uint32_t wait_world = 0;  // required: a new group forms with at least this many peers; 1: this one alone
  std::uint32_t min_world = 1;   // below it operations fail with kWorldTooSmall (the group takes the largest asked for)
  bool fail_on_peer_loss = false;  // an operation that loses a peer fails instead of being retried; same on all peers
  // An operation that this rank has waited for this long fails with kDeadline, on all ranks alike; 0: none. The outcome
  // is agreed, so it may come later, or be success.
  Milliseconds op_deadline = Milliseconds(0);
  // A rank whose trainer submits nothing for this long, while operations of the others wait for it, or one of their
  // sends and recvs does, is evicted (the group takes the longest asked for, 1 s to 24 days; 0: never, which is the
  // longest). Not if that is more than half of the ranks: then the others may have run ahead. Must exceed whatever one
  // rank does while the others wait, such as writing a checkpoint.
  Milliseconds evict_hung_after = std::chrono::minutes(10);
  // Of the whole Join, and of each attempt to rejoin. Then it fails with the last known cause, such as kPeerUnreachable
  // or kMasterUnreachable, or with kTimeout if it only waited for other peers.
  Milliseconds timeout = std::chrono::minutes(5);
  // Called within Join, on its thread, when what it waits for changes. The argument: ok for other peers, else a problem
  // to fix. Not called while rejoining.
  std::function<void(const Error&)> on_waiting = {};
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
  std::uint32_t world_size = 0;  // = contributors.size()
  // Peer ids whose inputs are in the result, in rank order: all members of the view. Of a broadcast or a scatter, where
  // the root alone has an input, one that has died may be among them without having called it.
  std::vector<std::uint64_t> contributors;
  // Sent by this peer for the operation until its result was reported, headers and retries included: of a small one,
  // which is reported at once, maybe less than all.
  std::uint64_t wire_bytes = 0;
  std::uint32_t retries = 0;
  bool update_waits = false;  // newcomers (or a better plan) wait: call UpdateView on every rank. Not by collectives
                              // with a root, whose ranks do not all hear of each other; a Barrier's, say, has it
  Algorithm algorithm = Algorithm::kRing;  // used for the result
  // No element is further from exact arithmetic than this times the largest magnitude of any contribution (in its
  // block, and with what error feedback added); 0 without a lossy codec. Infinite for products with one, and where the
  // result has an infinity or a NaN. Holds where those magnitudes, of a sum K times as much, are within
  // kCodecs[codec].error by a margin of this bound, and normal numbers of the dtype, of f16 up to 57344 with fp8.
  float error_bound = 0;
  Part part;  // of the output that holds the result, in elements
};

// One after the other: the sends of an AllToAllV whose input has no gaps.
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
  std::string site;  // of its daemon
};

struct OpOptions {
  std::uint32_t channel = 0;  // 0 .. 63
  // How elements travel, the same on all ranks: Codec::kInt8, or with a block and a rounding of its own
  // {Codec::kInt8, 128, Rounding::kStochastic}.
  Encoding codec = Codec::kNone;
  // The same on all ranks, the plan's choice included, else kMismatch: set it on all or on none. Nothing: the plan's
  // choice for the size (recommended). Algorithms that would gather over 256 MiB on one rank (one_shot, naive, tree)
  // fall back to the ring; see OpResult::algorithm.
  std::optional<Algorithm> algorithm = std::nullopt;
  // 0 .. 255. While collectives on several channels are in flight, this rank sends what has the highest first; of equal
  // ones each its turn. A rank's own choice, that helps where all choose alike: what is needed first, first. Lower ones
  // wait as long as there are higher ones, but for every sixteenth segment to a rank, which is one of theirs. Messages
  // have none.
  std::uint32_t priority = 0;
  // How long the submission waits while the session rejoins, or while the daemon does not read (at most 30 s, which end
  // the membership). Then kTimeout: nothing was submitted, and the call may be repeated. 0: does not wait.
  Milliseconds submit_timeout = kForever;
  // Not 0: submit only as this peer (Session::peer_id), else kRejoined. For threads that share a channel: each passes
  // the peer from whose state its input was computed.
  std::uint64_t as_peer = 0;
  // Error feedback, for sums and averages with a codec: what encoding takes from this rank's contribution is kept by
  // the daemon under this name, a tensor's, and added to the next contribution under it. An operation that fails
  // changes nothing, one that is retried uses the same residual, a new peer (kRejoined) begins without. One operation
  // at a time a name; with another count or dtype it begins without. The daemon keeps four bytes an element, while it
  // is under way eight and the tensor's own; without room kResourceExhausted. Empty: none.
  std::string error_feedback = {};
  // cudaStream_t, for input or output in device memory (see Device memory); null: the default stream.
  void* stream = nullptr;
};

namespace internal {
class SessionImpl;
struct WorkImpl;
struct RegionImpl;
class Places;
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

// One submitted operation. Movable. The result is in the output memory after Wait returned it, not before.
class RINGWAY_API Work {
 public:
  Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  // Destroying an unfinished Work detaches it: the operation goes on with the other ranks, with this rank's input as it
  // is now; its result is dropped, the contents of an output Buffer are unspecified. See Ownership.
  ~Work();

  // Blocks until the outcome is known, at most `timeout`. kTimeout is local: the operation and the buffers' ownership
  // go on, and Wait may be called again. Copies the committed result to the output where that is not shared memory of
  // the operation itself. A second Wait after success returns the same result.
  Expected<OpResult> Wait(Milliseconds timeout = kForever);
  // Blocks until Wait of one of `works` would return at once, but for the copy of a result to a device, and returns the
  // index of the first such one. REQUIRES: all are of one session.
  static Expected<std::size_t> WaitAny(const std::vector<Work*>& works, Milliseconds timeout = kForever);
  // Returns whether Wait would return at once. Never blocks.
  bool Test();
  // Makes a stream (cudaStream_t; null: the default stream) wait for the result, whose output is in device memory: what
  // is enqueued there afterwards sees it or, if the operation fails, the output as it was (unspecified if it is the
  // device that failed); Wait says which. Any number of streams may wait; the Work may be destroyed before.
  // Blocks, at most `timeout` (kTimeout: call again), until the inputs of this operation and of those that the session
  // submitted before have been read; of one that comes after an earlier result in its stream, that is when that result
  // has come. Blocks as Wait does, and returns the outcome's error, where no stream may wait: the result is being
  // copied already, two other streams wait (a quarter of CUDA_DEVICE_MAX_CONNECTIONS, which is 8 unless set), this one
  // waits for 32 results, pinned memory is to be given back, or the driver is older than CUDA 12. kInvalidArgument if
  // the output is in host memory.
  //
  // What others do while a stream waits: kernels of other streams begin if a hardware queue is free, of which the
  // stream has one. While a thread waits for the stream inside the driver (cudaMemcpy, a copy of pageable memory,
  // cudaFree), CUDA lets no other thread of the process in until the result has come: their submissions, inputs and
  // results in device memory wait, of all sessions. So before a thread waits so, each operation of this process that
  // another rank may need first, of any thread, channel or group, has had its WaitOnStream, or its Wait; or Wait is
  // called in its place.
  Error WaitOnStream(void* stream, Milliseconds timeout = kForever);
  // Asks all ranks to cancel the operation. The outcome is agreed: Wait returns kCancelled on all ranks, or success.
  Error Cancel();
  // Replaces JoinOptions::op_deadline for this operation: if it is not over `after` from now (0 .. 24 days), Wait
  // returns kDeadline on all ranks, with a text that says whom this rank waited for, or success.
  Error SetDeadline(Milliseconds after);
  bool valid() const { return impl_ != nullptr; }

 private:
  friend class internal::SessionImpl;
  explicit Work(std::shared_ptr<internal::WorkImpl> impl);
  std::shared_ptr<internal::WorkImpl> impl_;
};

// One membership of one group, or one after another (see Rejoining).
class RINGWAY_API Session {
 public:
  // Connects to the daemon, joins the group and returns when this peer is a member of a view.
  static Expected<std::unique_ptr<Session>> Join(const JoinOptions& options);
  // Leaves without waiting if Leave was not called.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Shared memory for zero-copy operations, page-aligned, populated. The daemon checks it later: an operation in memory
  // beyond what --memory-max leaves a session fails with kResourceExhausted.
  Expected<Buffer> Allocate(std::size_t bytes);

  // `output[i] = op over contributors of input[i]`, `count` elements each. `input` and `output` may be inside Buffers
  // of this session (no copy), any other memory (staged), or equal (in place: the copy happens in Wait, after commit).
  // Distinct ranges must not overlap. Blocks until the outcome is known. An error leaves the output unchanged, unless
  // it is inside a Buffer other than the input's, which receives the result directly: then it is unspecified.
  // Operations of a channel are matched by sequence number, so all ranks must submit the same sequence. A submission
  // that fails with kInvalidArgument, kNotSupported, kResourceExhausted, kIo, kTimeout or kInterrupted takes no number:
  // the others wait for this rank's next one, which must be the same operation. Some of these the Work's Wait says:
  // until it has, a channel takes nothing more (kResourceExhausted), or that would be the next one. After kRejoined the
  // sequence starts anew. Any other failure is reported to all ranks alike, and the next operation has the next number.
  // If only the wait is interrupted (kInterrupted), the others go on, as if this Work had been destroyed.
  Expected<OpResult> AllReduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                               const OpOptions& options = {});
  // The same without waiting for the outcome (see submit_timeout for a session that rejoins). At most 256 operations in
  // flight (kResourceExhausted beyond).
  Expected<Work> AllReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                const OpOptions& options = {});

  // Many tensors as one operation, which takes the delays of one: each as by AllReduce. All ranks give as many tensors,
  // of the same counts, in the same order; only the sum of the counts is compared (kMismatch). The calling thread
  // copies them together, and Wait apart; the inputs are the trainer's again when the submission returns, the outputs
  // when Wait has. Host memory only (kNotSupported). Of the result's `part` and of error feedback all together are one
  // tensor.
  Expected<OpResult> AllReduceMany(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                   const OpOptions& options = {});
  Expected<Work> AllReduceManyAsync(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                    const OpOptions& options = {});

  // `output` receives the inputs of the contributors in rank order, `count` elements of each: world_size * count in
  // all, with the result's world size, which a loss reduces. `output_count`: its capacity in elements, at least count *
  // world_size(); input and output may not overlap. All else as AllReduce; algorithms: ring, direct.
  Expected<OpResult> AllGather(const void* input, std::size_t count, void* output, std::size_t output_count,
                               DType dtype, const OpOptions& options = {});
  Expected<Work> AllGatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count,
                                DType dtype, const OpOptions& options = {});

  // As AllReduce, but each rank receives only its part of the result, at its place in the output: OpResult::part, which
  // is PartOf(count, world_size, rank) with the result's world size and rank. A loss makes the parts larger, so
  // `output` has room for all `count` elements; outside the part a Buffer is unspecified, other memory untouched.
  // Success is reported only when all ranks have their parts, whatever the size. Algorithms: ring, direct.
  Expected<OpResult> ReduceScatter(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                   const OpOptions& options = {});
  Expected<Work> ReduceScatterAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                    const OpOptions& options = {});

  // From and to one rank, and from each to each. `root` is a rank among the members that the session knows (rank(),
  // world_size(); OpResult::contributors[root] is its peer), and the operation is for that peer, whatever its rank is
  // when it runs. If it is gone, or was when the operation began, all ranks get kPeerLost, from which the session has
  // learnt who is left; a loss of another peer is retried without it. Success is reported only when all ranks are done:
  // two one-way delays at least (three of Reduce and Gather). Their results do not say update_waits. All else as
  // AllReduce; client/README.md has a table of what each does after a loss.

  // `data` of the root becomes that of all (with a codec the root, too, goes on with what the others decode).
  // Algorithms: ring, direct, tree, naive.
  Expected<OpResult> Broadcast(void* data, std::size_t count, DType dtype, std::uint32_t root,
                               const OpOptions& options = {});
  Expected<Work> BroadcastAsync(void* data, std::size_t count, DType dtype, std::uint32_t root,
                                const OpOptions& options = {});

  // As AllReduce, but the result is the root's alone; `output` of the others is null, or work space that may be
  // overwritten. Algorithms: ring, direct, tree, naive.
  Expected<OpResult> Reduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                            std::uint32_t root, const OpOptions& options = {});
  Expected<Work> ReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                             std::uint32_t root, const OpOptions& options = {});

  // As AllGather, but the result is the root's alone; `output` of the others is ignored, and null. Algorithm: direct.
  Expected<OpResult> Gather(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                            std::uint32_t root, const OpOptions& options = {});
  Expected<Work> GatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count, DType dtype,
                             std::uint32_t root, const OpOptions& options = {});

  // `output` receives `count` elements of the root's input, those at rank * count. `input_count` is world_size() *
  // count at the root; the others' input is ignored. The input is laid out for the world that this session knows: if
  // the operation runs in a smaller one, all ranks get kPeerLost. Disjoint. Algorithm: direct.
  Expected<OpResult> Scatter(const void* input, std::size_t input_count, void* output, std::size_t count, DType dtype,
                             std::uint32_t root, const OpOptions& options = {});
  Expected<Work> ScatterAsync(const void* input, std::size_t input_count, void* output, std::size_t count, DType dtype,
                              std::uint32_t root, const OpOptions& options = {});

  // Input and output have `count` elements, world_size() equal parts (kInvalidArgument if that leaves a rest): part r
  // of the input goes to rank r, part r of the output comes from it. After a loss as Scatter. Disjoint. Algorithm:
  // direct.
  Expected<OpResult> AllToAll(const void* input, void* output, std::size_t count, DType dtype,
                              const OpOptions& options = {});
  Expected<Work> AllToAllAsync(const void* input, void* output, std::size_t count, DType dtype,
                               const OpOptions& options = {});

  // With counts by rank: lists with an entry for each rank of the world that this session knows (world_size()), else
  // kInvalidArgument. If the operation runs in another world, all ranks get kPeerLost.

  // Rank r receives input[sends[r]], and sends what comes here as the r-th part of the output: receives[r] elements, in
  // rank order without gaps. Any count may be 0, and sends may overlap. What this rank sends to another, and receives
  // from it, must be what that one says (kMismatch); nobody needs to know what others exchange. A pair without elements
  // exchanges nothing. Disjoint. Success is reported when all ranks are done; the result does not say update_waits.
  // Algorithm: direct.
  Expected<OpResult> AllToAllV(const void* input, const std::vector<Part>& sends, void* output,
                               const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options = {});
  Expected<Work> AllToAllVAsync(const void* input, const std::vector<Part>& sends, void* output,
                                const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options = {});

  // As AllGather, but rank r contributes counts[r] elements; the same list on all ranks (kMismatch). The output has
  // their sum.
  Expected<OpResult> AllGatherV(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                                const OpOptions& options = {});
  Expected<Work> AllGatherVAsync(const void* input, void* output, const std::vector<std::size_t>& counts, DType dtype,
                                 const OpOptions& options = {});

  // As ReduceScatter, but rank r's part has counts[r] elements, the parts one after the other; the same list on all
  // ranks (kMismatch). Input and output have their sum.
  Expected<OpResult> ReduceScatterV(const void* input, void* output, const std::vector<std::size_t>& counts,
                                    DType dtype, ReduceOp op, const OpOptions& options = {});
  Expected<Work> ReduceScatterVAsync(const void* input, void* output, const std::vector<std::size_t>& counts,
                                     DType dtype, ReduceOp op, const OpOptions& options = {});

  // From one rank to another; nobody else takes part. `to` and `from` are ranks among the members that the session
  // knows, never its own, and stay those peers. Messages of a pair, a channel and a tag are matched in the order of
  // their submission, apart from the collectives of the channel. Bytes arrive as they are: no codec.
  //
  // Success at the receiver: `data` holds what was sent; at the sender: the receiver has it. Both are told the same,
  // which the receiver decides: kMismatch (another count or dtype), kCancelled and kDeadline, by whichever of the two;
  // a view that changes between two others disturbs nothing, and one without the other rank ends it with kPeerLost. A
  // send of over 64 KiB moves when the receiver has submitted its end. An error leaves `data` of a Recv as it was,
  // unless it is inside a Buffer: then it is unspecified.
  Expected<OpResult> Send(const void* data, std::size_t count, DType dtype, std::uint32_t to, std::uint32_t tag = 0,
                          const OpOptions& options = {});
  Expected<Work> SendAsync(const void* data, std::size_t count, DType dtype, std::uint32_t to, std::uint32_t tag = 0,
                           const OpOptions& options = {});
  Expected<OpResult> Recv(void* data, std::size_t count, DType dtype, std::uint32_t from, std::uint32_t tag = 0,
                          const OpOptions& options = {});
  Expected<Work> RecvAsync(void* data, std::size_t count, DType dtype, std::uint32_t from, std::uint32_t tag = 0,
                           const OpOptions& options = {});

  // Is over when all ranks have submitted it. One one-way delay.
  Expected<OpResult> Barrier(const OpOptions& options = {});
  Expected<Work> BarrierAsync(const OpOptions& options = {});

  // Adopts the newest prepared view on all ranks at the same point. A collective on channel 0 that every rank calls; no
  // other operation of this session may be in flight: kInvalidArgument if its Work still waits for the outcome; one
  // whose Work was destroyed is awaited. The result names the view that is current afterwards. Works below min_world,
  // too: a trainer that got kWorldTooSmall calls it until it succeeds (it fails while other ranks have submitted
  // something else under the same number). Then all ranks continue at the same sequence number of each channel: what
  // failed for others and was not submitted here is skipped.
  Expected<OpResult> UpdateView(Milliseconds timeout = kForever);

  // Finishes what is running, then leaves the group. Aborts a rejoin.
  Error Leave(Milliseconds timeout = std::chrono::seconds(30));
  // Leaves without waiting, from any thread: blocked calls of all threads return kLeft at once, later ones too. For a
  // watchdog, or a thread that handles signals; not async-signal-safe.
  void Abort();

  std::uint64_t peer_id() const;  // the newest membership's; never repeats
  std::uint32_t rank() const;     // in the newest view known from Join or a result
  std::uint32_t world_size() const;
  std::uint64_t epoch() const;
  // Members of the newest view known from the daemon, in rank order. Never blocks.
  Expected<std::vector<Member>> Members() const;

 private:
  friend class internal::Places;
  explicit Session(std::shared_ptr<internal::SessionImpl> impl);
  std::shared_ptr<internal::SessionImpl> impl_;
};

}  // namespace ringway
