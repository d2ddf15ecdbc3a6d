// The client's side of one session: a facade over the objects that own its state.
//
//   Memberships      the Link to the daemon, rejoining, leaving; with the Waiter and its one mutex
//   Regions          shared memory: placement, registration, eviction
//   Operations       slots, outcomes, results, the view
//   DeviceFinisher   device memory, and the operations for which streams wait
//
// Each refers only to those above it. A function that takes a Lock runs under the Waiter's mutex, which guards
// everything but the copying, the socket and the page; sends happen outside it.
//
// Threads: any, except that an Operation belongs to one thread at a time. Forks: every call asks Forked() before it
// takes the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <utility>
#include <vector>

#include "client/src/device_finisher.h"
#include "client/src/memberships.h"
#include "client/src/operations.h"
#include "client/src/regions.h"
#include "client/src/request.h"

namespace ringway::internal {

class SessionImpl : public std::enable_shared_from_this<SessionImpl> {
 public:
  // `on_held`: see Shake.
  static Result<std::shared_ptr<SessionImpl>> Join(const JoinOptions& options, const OnHeld& on_held = {});
  ~SessionImpl() { memberships_.StopRejoiner(); }

  // These build the handles of ringway.hpp, whose constructors only this class may call.
  Result<Buffer> Allocate(std::size_t bytes, RegionUse use = RegionUse::kBuffer);
  Result<Work> Start(const Request& request);

  Result<Operation> Submit(Request request);
  Result<OpResult> Wait(Operation* operation, const Deadline& deadline);
  // Returns the index of the first one whose Wait would return at once.
  Result<std::size_t> WaitAny(const std::vector<Operation*>& operations, const Deadline& deadline);
  bool Test(Operation* operation);
  // Makes a stream wait for the result. From then on the session finishes the operation.
  Status WaitOnStream(Operation* operation, device::Stream stream, const Deadline& deadline);
  Status Cancel(const Operation& operation) { return operations_.Cancel(operation); }
  Status SetDeadline(const Operation& operation, Milliseconds after) {
    return operations_.SetDeadline(operation, after);
  }
  // Drops the owner: the operation goes on with its input as it is now, whatever is written to it later. Blocks (until
  // the outcome) only if the system refuses to unshare a Buffer.
  void Detach(const Operation& operation);

  Result<OpResult> UpdateView(const Deadline& deadline);
  Status Leave(const Deadline& deadline) { return Forked() ? ForkedError() : memberships_.Leave(deadline); }
  Result<std::vector<Member>> Members();
  std::vector<std::uint64_t> Newcomers();
  // Whether this rank's daemon knows sums that are without some inputs.
  bool CanGoWithout();
  // Sums and averages that `as_peer` submits from now on are without inputs of peers from `from` on; 0: with all.
  struct Without {
    std::uint64_t as_peer = 0;
    std::uint64_t from = 0;
  };
  void GoWithout(const Without& inputs);
  // Leaves without waiting: the Session object is destroyed, or another thread ends all waits.
  void Abandon() {
    if (!Forked()) memberships_.Abandon();
  }

  Deadline Within(Milliseconds timeout) const { return memberships_.Within(timeout); }
  bool Forked() const { return memberships_.Forked(); }
  Regions& regions() { return regions_; }
  const View& view() const { return operations_.view(); }
  const JoinOptions& options() const { return memberships_.options(); }

 private:
  SessionImpl(const JoinOptions& options, std::shared_ptr<Link> link);
  void Rejoined(Result<std::shared_ptr<Link>> found);

  // Blocks until no operation without an owner, and no copy, is under way.
  Status AwaitDetached(Lock* lock, Link* link, const Deadline& deadline);
  // Called when something else is submitted: then nobody waits for the update any more.
  void DropPendingUpdate(const Lock& lock);

  // submit.cc
  // Binds the request to the world of the newest outcome that is there.
  Status BindToNewestWorld(Request* request);
  Result<Operation> SubmitPlaced(const Request& request, const Placement& placement, const std::shared_ptr<Link>& link,
                                 const Deadline& deadline);
  Status SendSubmit(const Request& request, const Placement& placement, const Operation& operation, bool staged,
                    const Deadline& deadline);
  void StageInput(const Request& request, Region* region, const Operation& operation);

  Memberships memberships_;
  Regions regions_;
  Operations operations_;
  DeviceFinisher device_;
  std::atomic<std::uint64_t> without_as_ = 0;    // the peer that goes without some inputs
  std::atomic<std::uint64_t> without_from_ = 0;  // those of the peers from this on
  bool updating_ = false;                        // a thread is in UpdateView
  std::optional<Operation> pending_update_;      // an UpdateView whose wait timed out
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
  ~RegionImpl() { session->regions().ReleaseBuffer(region); }
};

}  // namespace ringway::internal
