// Newcomers that replay: admitted before they have the state, they take it while the members train, and catch up by the
// results since.
//
//   the admission   all see in the offers that it goes so (choose.h): members copy their state
//   then            members  --SyncBytes of the copy-->            |  Barrier  |  max of the last revisions
//                   newcomer --SyncBytes--> catches up, step by step  |           |
//   one further     the boundary at which all compare their states, and from which on the newcomer contributes
//
// Between the first and the last boundary, sums and averages of the trainers are without the newcomer's input, as each
// submission says (SessionImpl::GoWithout). A rank that has said its revision waits at its next boundary for what the
// others said: so none is beyond the one that they agree on. UpdateView waits until then, on all ranks alike.
//
// What fails on all ranks is tried again, or ends with the newcomer, which leaves; a rank that fails alone leaves.
//
// Threads: the trainer's; what goes on beside its operations is on a thread of its own, which ends with this object.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ringway/shared_state.hpp>
#include <thread>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"

namespace ringway::internal {

class SessionImpl;

// Smaller states are sent at the admission, which takes no longer than to agree on this.
inline constexpr std::size_t kReplayedBytesMin = std::size_t{1} << 20;

// A state as it was, in the session's shared memory.
struct StateCopy {
  Buffer memory;
  StateBytes bytes;

  // `memory`: a Buffer of the state's size, from which it is sent.
  static Result<StateCopy> Make(Buffer memory, std::vector<StateTensor> tensors, StateBytes* state);
};

class Replay {
 public:
  // Both end: a newcomer's, which has the state of that revision, or a member's, which gives it. `peer_id`: this rank's
  // when all agreed on it.
  struct Begin {
    std::uint64_t peer_id = 0;
    std::uint64_t revision = 0;
  };
  Replay(const std::shared_ptr<SessionImpl>& session, const Begin& begin);
  Replay(const std::shared_ptr<SessionImpl>& session, const Begin& begin, StateCopy copy);
  // Ends what it waits for: then this rank leaves the group, which would wait for it.
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  bool is_newcomers() const { return is_newcomers_; }
  // A newcomer has caught up. May be called again.
  void CatchUp();
  // Returns whether this rank replays, or gives the state, in that session and as the peer that it is now.
  bool IsOf(const Session& session) const;
  // At the boundary of this revision: returns whether it is the one at which the newcomer begins to contribute. Waits
  // for the others at most once, while they exchange a number. kInterrupted: call it again.
  Result<bool> IsOver(std::uint64_t revision);

 private:
  void Start(std::function<Status()> first);
  Result<std::uint64_t> Agree();

  const bool is_newcomers_;
  const Begin begin_;
  std::unique_ptr<Session> session_;  // another handle of the trainer's, whose end ends nothing
  std::function<bool()> stopped_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::uint64_t now_;                          // the revision of the newest boundary
  std::optional<std::uint64_t> said_;          // what this rank has reported of it
  std::optional<Result<std::uint64_t>> last_;  // the newest that any rank has reported
  std::thread thread_;
};

}  // namespace ringway::internal
