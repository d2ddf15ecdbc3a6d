// What all ranks must have alike, such as parameters and moments: compared by hash, sent only where it differs, and
// from all ranks that have it at once. A newcomer joins and takes it in one call.
//
//   auto state = ringway::SharedState::Make({{"weights", weights.data(), bytes}}, {.path = "/var/lib/job/state"});
//   auto session = state->Join({.group = "job", .wait_world = 4});
//   while (state->revision() < 1000) {
//     auto mean = (*session)->AllReduce(gradient, gradient, count, DType::kF32, ReduceOp::kAvg);
//     if (mean.error().code() == Code::kRejoined) state->Sync(**session);  // then begin the step anew
//     if (!mean.ok()) continue;
//     Apply(weights, gradient);
//     state->Advance(**session, mean->update_waits);
//   }
//
// (Check each error: client/examples/shortest/shortest.cc does.) What is called here are collectives on channel 0.
//
// How: an all-gather of (hash of all, revision), by which all ranks choose the same state; one of a 128-bit hash for
// each piece of 16 MiB, which says who lacks what; an AllToAllV for each piece that anybody lacks, to which every
// holder contributes an equal stripe; an all-reduce, by which all know that everybody has what it lacked, unchanged.
// Tensors are written only then, for which there must be memory. If ranks are lost, those who are left choose again;
// what has arrived is not sent again. Where all agree there is only the first.
//
// A failure of this rank alone while the others are in the middle of it (memory, a device, an interruption) leaves the
// group, so that they choose again without it: later calls return kLeft.
//
// Errors are those of the collectives, and: kMismatch, on all ranks unless said otherwise, for states that do not go
// together or were written to meanwhile; kInvalidArgument for tensors and files that cannot be used; kIo for files.
// Threads: one at a time, while no other operation of the session is in flight; hashing uses up to eight more.
// Ownership: the tensors' memory is the caller's, and not to be written to during a call. Memory of a device: what
// streams do to it has ended.
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
  kPopular,  // of the newest revision, what most ranks have; of as many, the lowest rank's
  kSend,     // this rank's is taken: kMismatch if others that send have another
  kReceive,  // this rank's is never taken: kMismatch if all ranks say so
};

struct StateProgress {
  std::size_t bytes = 0;  // that this rank and others lacked, and that have been exchanged
  std::size_t of_bytes = 0;
};

struct StateOptions {
  std::uint64_t revision = 0;  // counts what has been done to the tensors, as steps; at most 2^62
  StateStrategy strategy = StateStrategy::kPopular;
  // Ranks that train with their state: where there are any, the others take theirs whatever their revisions are, and
  // what does not go together with it is kMismatch for that rank alone, which then has to leave.
  bool in_use = false;
  // On the calling thread, before each piece is sent. False ends the call with kInterrupted.
  std::function<bool(const StateProgress&)> on_progress = {};
};

struct StateResult {
  std::uint64_t revision = 0;      // of the state that all ranks then have
  std::size_t received_bytes = 0;  // of pieces that this rank lacked
  std::size_t sent_bytes = 0;      // of those that others lacked
};

// Makes the tensors the same on all ranks: a collective on channel 0. An error leaves them as they were, except
// kDeviceFailed.
RINGWAY_API Expected<StateResult> SyncState(Session& session, const std::vector<StateTensor>& tensors,
                                            const StateOptions& options = {});

namespace internal {
class SharedStateImpl;
}

struct SharedStateOptions {
  std::uint64_t revision = 0;  // of the tensors as they are
  // A file of this rank's own, and of this training alone: read by Make if it is there, and written every so many
  // revisions. So a training of which nobody is left goes on from the newest file. Replaced as a whole, so there must
  // be room for two. Empty: none.
  std::string path = {};
  std::uint64_t every = 1;
};

// Tensors that all ranks have alike, and that ranks which come take from those who are there.
class RINGWAY_API SharedState {
 public:
  // Reads the file, if there is one. Before Join, so that one which is refused costs the others nothing:
  // kInvalidArgument if it is damaged or another model's, or its directory is missing; kResourceExhausted without room.
  static Expected<SharedState> Make(std::vector<StateTensor> tensors, const SharedStateOptions& options = {});
  SharedState(SharedState&&) noexcept;
  SharedState& operator=(SharedState&&) noexcept;
  ~SharedState();

  // Session::Join and Sync; those who train lose the end of one step.
  Expected<std::unique_ptr<Session>> Join(const JoinOptions& options);

  // Makes the tensors the same on all ranks, whose others are in Sync or Advance: first of all, and after kRejoined.
  // Taken is the state of those who train; where there are none, of those who rejoin; of ranks that all begin, the
  // newest revision.
  Expected<StateResult> Sync(Session& session);

  // The tensors are one revision further, on every rank: the end of a step, with nothing in flight. `update_waits`: of
  // the step's result, and so the same on all ranks; then newcomers are admitted, and take the state. Saves if it is
  // time. Returns whether that was so: the world may be another. If this rank was lost meanwhile, it has rejoined and
  // taken the others' state: its peer_id is another, and what was computed from the tensors before is of no use. kIo:
  // the file could not be written and is as before, all else is done, and the training may go on.
  Expected<bool> Advance(Session& session, bool update_waits);

  std::uint64_t revision() const;

 private:
  explicit SharedState(std::unique_ptr<internal::SharedStateImpl> impl);
  std::unique_ptr<internal::SharedStateImpl> impl_;
};

}  // namespace ringway
