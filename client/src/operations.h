// The operations of a session after their submission: what the daemon is asked to do with them, whether they are
// settled, their outcomes, and the view that the newest outcome names.
//
// Threads: any. Functions without a Lock take the session's mutex themselves, except IsSettled, which needs none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <vector>

#include "client/src/memberships.h"
#include "client/src/regions.h"
#include "client/src/tensor_list.h"

namespace ringway::internal {

// One submitted operation, as its owner sees it.
struct Operation {
  std::shared_ptr<Link> link;  // on which it was submitted
  std::uint32_t slot = 0;
  abi::OpSpec spec{};
  std::uint64_t refusals_read = 0;  // at the submission (Slots::RefusalsRead)
  std::size_t output_count = 0;
  std::optional<Part> part;  // the part of the output that is the result, where the kind HasCounts
  void* output = nullptr;
  std::shared_ptr<const TensorList> tensors;  // instead of the output
  std::shared_ptr<DevicePart> device;         // null: only the host's memory
  std::optional<Result<OpResult>> read;       // the outcome, while the result is being copied to the device
  std::optional<Result<OpResult>> outcome;    // once set, the slot is no longer this operation's

  bool is_deferred() const { return device && device->deferral; }
};

// The newest view that the session knows: its membership's, then that of each later outcome. Any thread may read the
// numbers; the members are under the session's mutex.
struct View {
  std::atomic<std::uint64_t> peer_id = 0;
  std::atomic<std::uint32_t> rank = 0;
  std::atomic<std::uint32_t> world_size = 0;
  std::atomic<std::uint64_t> epoch = 0;
  std::atomic<std::uint64_t> behind = 0;  // of the newest result that was read (OpResult)
  std::vector<std::uint64_t> members;     // ids in rank order; empty if the daemon was writing them at the join
};

class Operations {
 public:
  // Both outlive this.
  Operations(Memberships* memberships, Regions* regions) : memberships_(*memberships), regions_(*regions) {}

  const View& view() const { return view_; }
  // Adopts the newest membership. `before`: the one before it, or null.
  void Adopt(const Lock& lock, Link* before);

  Result<std::uint32_t> TakeSlot(const Lock& lock, Link* link);
  // Also releases the slot's regions.
  void FreeSlot(const Lock& lock, Link* link, std::uint32_t index);
  // Frees the slots without an owner with which the daemon has finished.
  void ReclaimDetached(const Lock& lock, Link* link);
  // Drops the owner of a slot.
  void Detach(const Lock& lock, const Operation& operation);

  // Returns whether the slot holds the outcome. A stopping daemon's refusal is none: it is reported as kRejoined.
  bool IsSettled(const Operation& operation) const;
  // Returns whether the operation is settled or never will be.
  bool IsDecided(const Lock& lock, const Operation& operation) const {
    return IsSettled(operation) || !memberships_.IsOpen(lock, *operation.link);
  }
  // Returns whether Wait would return at once, but for the copy of the result to a device.
  bool IsReady(const Lock& lock, const Operation& operation) const;

  // REQUIRES: the operation is settled.
  Result<OpResult> ReadOutcome(const Lock& lock, const Operation& operation);
  // Collects the result and frees the slot. REQUIRES: the operation is settled, or `loss` says why it will not be.
  Result<OpResult> Finish(Lock* lock, Operation* operation, const Status& loss);

  Status Cancel(const Operation& operation);
  Status SetDeadline(const Operation& operation, Milliseconds after);
  // Cancels an operation whose input cannot be read.
  Status SendCancel(const Operation& operation, const Deadline& deadline);

 private:
  // Asks the daemon for something on behalf of the operation's owner.
  template <typename Packet>
  Status Ask(const Operation& operation, const Packet& packet);
  // Sends a packet about an operation in flight, whose slot is filled in.
  template <typename Packet>
  Status SendAbout(const Operation& operation, Packet packet, const Deadline& deadline);
  void Learn(const abi::Outcome& outcome, const std::vector<std::uint64_t>& members);
  // Copies the result to the output unless it is in place: without the lock, while the slot keeps the regions.
  static Status CollectResult(Lock* lock, const Operation& operation, const Part& part);

  Memberships& memberships_;
  Regions& regions_;
  View view_;
};

}  // namespace ringway::internal
