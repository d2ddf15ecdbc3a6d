// State that must be the same on all ranks, such as parameters and moments. Ranks compare it by hash and send only the
// pieces that differ, in stripes from all ranks that hold them. A newcomer joins and fetches it in one call.
//
//   auto state = ringway::SharedState::Make({{"weights", weights.data(), bytes}}, {.path = "/var/lib/job/state"});
//   auto session = state->Join({.group = "job", .wait_world = 4});
//   while (state->revision() < 1000) {
//     auto mean = (*session)->AllReduce(gradient, gradient, count, DType::kF32, ReduceOp::kAvg);
//     if (mean.status().code() == Code::kRejoined) state->Sync(**session);  // then begin the step anew
//     if (!mean.ok()) continue;
//     Apply(weights, gradient);
//     state->Advance(**session, mean->update_waits);
//   }
//
// (Check each error: client/examples/shortest/shortest.cc does.) All these calls are collectives on channel 0.
//
// Algorithm: an all-gather of (revision, hash of the state, hashes of its pieces of up to 16 MiB; of a large state in a
// second one), from which all ranks choose the same state and know who lacks what; if they agree, that is all. An
// AllToAllV for each piece that a rank lacks, to which every holder contributes an equal stripe; an all-reduce, which
// confirms that all ranks have what they lacked, unchanged. Tensors are written only then, so there must be memory for
// both. If ranks are lost, the survivors choose again and resend nothing that has arrived.
//
// If this rank alone fails during an exchange (memory, a device, an interruption), it leaves the group, and the others
// choose again: its later calls return kLeft.
//
// Errors are those of the collectives, and: kMismatch, on all ranks unless said otherwise, for states that differ in
// more than bytes or were written to meanwhile; kInvalidArgument for tensors and files that cannot be used; kIo for
// files. Threads: one at a time, while no other operation of the session is in flight; hashing uses up to eight more.
// Ownership: the tensors' memory is the caller's, who does not write to it during a call, and whose streams have ended
// their work on device memory before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

namespace ringway {

// Bytes in the memory of the host or a device; all ranks list the same names, sizes and descriptions in the same order.
struct StateTensor {
  std::string name;  // unique
  void* data = nullptr;
  std::size_t bytes = 0;
  // What the bytes mean, so that ranks which disagree get kMismatch instead of each other's bits. Only compared: any
  // text of up to 1024 bytes, the same on all ranks. The Python module writes dtype and shape, as "float32[3, 4]".
  std::string description = {};
};

enum class StateStrategy : std::uint8_t {
  kPopular,  // the state of the newest revision that most ranks have; on a tie, the lowest rank's
  kSend,     // this rank's state: kMismatch if another sender's differs
  kReceive,  // never this rank's state: kMismatch if all ranks receive
};

struct StateProgress {
  std::size_t bytes = 0;     // exchanged so far, of those that this rank and others lacked
  std::size_t of_bytes = 0;  // to exchange in all
};

struct StateOptions {
  std::uint64_t revision = 0;  // counts changes of the tensors, such as steps; at most 2^62
  StateStrategy strategy = StateStrategy::kPopular;
  // This rank trains with its state. If any rank does, the others fetch that state, whatever their revisions; one whose
  // tensors do not match it gets kMismatch alone, and has to leave.
  bool in_use = false;
  // Called on the calling thread, before each piece is sent. False ends the call with kInterrupted.
  std::function<bool(const StateProgress&)> on_progress = {};
};

struct StateResult {
  std::uint64_t revision = 0;      // the revision of the state that all ranks now have
  std::size_t received_bytes = 0;  // received, of pieces that this rank lacked
  std::size_t sent_bytes = 0;      // sent, of pieces that others lacked
};

// Makes the tensors the same on all ranks: a collective on channel 0. An error leaves them as they were, except
// kDeviceFailed.
RINGWAY_API Result<StateResult> SyncState(Session& session, const std::vector<StateTensor>& tensors,
                                          const StateOptions& options = {});

namespace internal {
class SharedStateImpl;
}

struct SharedStateOptions {
  std::uint64_t revision = 0;  // that of the tensors as they are
  // A file for this rank and this training alone. Make reads it if it exists, Advance writes it each time that `every`
  // divides the revision. So a training in which all peers died resumes from the newest file. Replaced atomically,
  // which needs room for two. Empty: none.
  std::string path = {};
  std::uint64_t every = 1;
  // All ranks set it: a newcomer is admitted at once, takes the state of the admission while the others train, and
  // replays the steps since: it makes the same calls as they did, each of which is done at once with their result. So
  // a step has to change the tensors by nothing but results, and sums and averages without a quorum and weights are
  // its only collectives: any other waits for the newcomer. Members copy the state, in the session's share of
  // --memory-max; where a rank has no room, below 1 MiB, or where one does not set it, the state is sent at the
  // admission.
  bool replay = false;
};

// Tensors that are the same on all ranks. Newcomers fetch them from the members.
class RINGWAY_API SharedState {
 public:
  // Reads the file, if there is one: before Join, so that the others do not wait for a rank whose file is refused.
  // kInvalidArgument if it is damaged or another model's, or its directory is missing; kResourceExhausted without room.
  static Result<SharedState> Make(std::vector<StateTensor> tensors, const SharedStateOptions& options = {});
  SharedState(SharedState&&) noexcept;
  SharedState& operator=(SharedState&&) noexcept;
  ~SharedState();

  // Session::Join and Sync. A state of 64 MiB or more is taken before the admission, while the members train: they wait
  // for what differs then, at the end of one step. client/README.md says how, and when all of it is left for then.
  Result<std::unique_ptr<Session>> Join(const JoinOptions& options);

  // Makes the tensors the same on all ranks; the others call Sync or Advance. Call it first, and after kRejoined. The
  // state is that of the ranks that train; if there are none, of those that rejoin; if all begin, that of the newest
  // revision. kInvalidArgument, and nothing else happens, while a newcomer replays and this rank is the same peer: all
  // compare their states at the end of that, where Advance returns true.
  Result<StateResult> Sync(Session& session);

  // Ends a step on every rank, with nothing in flight: the tensors are one revision further. `update_waits` is from the
  // step's result, the same on all ranks: if it is set, newcomers are admitted and fetch the state. If not, it copies
  // pieces for newcomers that ask, for a tenth of a step's time, or one piece. Writes the file if it is due.
  // Returns whether newcomers were admitted, or one that has replayed begins to contribute: `update_waits`, unless one
  // replays, for then others wait. If this rank was lost meanwhile, it has rejoined and has the
  // others' state: its peer_id has changed, and what was computed from the tensors before is useless. kIo: the file
  // could not be written and is as before, all else is done, and the training may go on. kInterrupted, kTimeout:
  // nothing was advanced; call it again.
  Result<bool> Advance(Session& session, bool update_waits);

  // Returns whether Advance may read or write the tensors now even without `update_waits` and a file, for a newcomer.
  // From admission to contribution of one that replays: always.
  bool IsAsked(const Session& session) const;

  // Returns whether this rank replays: its inputs are not in sums and averages, so it need not compute them. From the
  // boundary on at which it has caught up, where Advance compares the states of all, they are.
  bool is_replaying() const;

  std::uint64_t revision() const;

 private:
  explicit SharedState(std::unique_ptr<internal::SharedStateImpl> impl);
  std::unique_ptr<internal::SharedStateImpl> impl_;
};

}  // namespace ringway
