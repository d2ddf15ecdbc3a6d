// The device memory of a session's operations: copies inputs to their regions and results from theirs, and finishes the
// operations for whose results streams wait.
//
// An input is copied into its region after the submission, in slices, by the device library, whose thread announces
// them. A result is copied to the device after commit, by whoever waits for it. Where a stream waits, the operation is
// deferred: the result is copied in that stream, which the finisher releases, a thread that waits for all deferred
// operations. It must not enter the driver, which may be in the hands of a thread that waits for the stream.
//
//   deferred: waiting -> settled or lost -> (output copied ->) finished; the streams go on
//
// Threads: any; functions without a Lock take the session's mutex themselves. Copies and the finisher keep the session.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <utility>

#include "client/src/device_part.h"
#include "client/src/operations.h"

namespace ringway::internal {

class DeviceFinisher {
 public:
  // Returns a handle that keeps the session, which owns all of these.
  using KeepSession = std::function<std::shared_ptr<void>()>;

  DeviceFinisher(Memberships* memberships, Regions* regions, Operations* operations, KeepSession keep_session)
      : memberships_(*memberships),
        regions_(*regions),
        operations_(*operations),
        keep_session_(std::move(keep_session)) {}

  // Numbers an operation that is about to be submitted.
  void Number(const Lock& /*lock*/, DevicePart* part) { part->number = ++submitted_; }
  // Starts to copy the input into its region. REQUIRES: the operation is submitted.
  void CopyInput(const Request& request, Region* region, const Operation& operation);

  // Blocks until the result has been copied, or will not be; an error only if the deadline came first. REQUIRES: the
  // operation is settled, and not deferred.
  Status AwaitOutput(Lock* lock, Operation* operation, const Deadline& deadline);
  // Waits for a deferred operation.
  Result<OpResult> AwaitOutcome(Lock* lock, const Operation& operation, const Deadline& deadline);
  // Blocks until `ready()`, which the finisher brings about however the membership ends, the deadline or an
  // interruption.
  Status AwaitFinisher(Lock* lock, const Deadline& deadline, const std::function<bool()>& ready);

  // Makes a stream wait for the result and defers the operation. nullopt: this stream cannot wait, so the caller does.
  std::optional<Status> HoldStream(const Operation& operation, device::Stream stream, const Deadline& deadline);

  // Returns whether there is no copy in flight, and no deferred operation without an owner.
  bool IsIdle(const Lock& lock) const;
  // Ends the session if a copy that nobody waits for hangs, for memory of its operation may yet be written.
  void GiveUpHungCopies(const Lock& lock, Link* link);

 private:
  void BeginCopy(const Lock& lock, const Operation& operation, Region* region);
  void EndCopy(const Lock& lock, const DevicePart* part, Region* region);
  void OnInput(const Operation& operation, Region* region, std::size_t arrived, std::size_t bytes, const Status& error);
  // Starts to copy the result, if there is one. REQUIRES: the operation is settled.
  void CopyOutput(Lock* lock, Operation* operation);
  void OnOutput(const Operation& operation, Region* region, bool is_last, const Status& error);
  void GiveUpHungOutput(const Lock& lock, DevicePart* part) const;

  // Blocks until the inputs of this operation and of all that were submitted before have been read, or it is decided.
  Status AwaitInputs(Lock* lock, const Operation& operation, const Deadline& deadline);
  // Hands the operation over to the finisher.
  Status Defer(Lock* lock, const Operation& operation, std::shared_ptr<device::Hold> hold);
  // Reports the error of a deferred operation that is finished.
  Status Report(const Lock& lock, const Operation& operation);
  bool MayAdvance(const Lock& lock, const Operation& operation) const;
  // Copies the result of a deferred operation out, then ends the streams' wait. REQUIRES: it is settled or lost.
  void Advance(Lock* lock, const std::shared_ptr<DevicePart>& part);
  std::list<Operation>::iterator FindDeferred(const DevicePart& part);
  void EndDeferred(Lock* lock, DevicePart* part);
  Status StartThread(const Lock& lock);
  // The finisher's thread: until the session has ended, or for a while nothing was deferred.
  void Run();

  Memberships& memberships_;
  Regions& regions_;
  Operations& operations_;
  const KeepSession keep_session_;
  std::list<std::shared_ptr<DevicePart>> copies_;  // between host and device, in flight; of all memberships
  std::list<Operation> deferred_;
  std::uint64_t submitted_ = 0;  // operations on device memory
  bool is_running_ = false;      // the thread
};

}  // namespace ringway::internal
