// The part of an operation that is about device memory: where input and output are, and how far its copies are.
//
//   input    device --copy--> pinned region, as staged host memory: every slice that arrived is announced to the daemon
//   result   pinned region --copy--> device, after commit
//
//   output:  kNone -> kCopying -> kOver
//
// If the copy of an input fails, the operation is cancelled on all ranks, and this one reports why: also where the
// others went on without an input that was to be kept. If the copy of a result fails, which comes after commit, this
// rank is out of step with the others: its session ends.
//
// Ownership: shared by the operation, its slot and its copies. Guarded by the session's mutex, but for what is set
// before the submission.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <utility>

#include "client/src/deadline.h"
#include "client/src/fork_guard.h"
#include "proto/device/library.h"

namespace ringway::internal {

// How often to look for copies that hang.
inline constexpr Milliseconds kHungCheck = std::chrono::seconds(1);

// A stream that waits for a result, until Release or GoOn. While any stream of the process does, a thread that waits
// for it may keep the driver, and so delay copies that are not the stream's own.
class HeldStream {
 public:
  explicit HeldStream(std::shared_ptr<device::Hold> hold) : hold_(std::move(hold)) { ++held_; }
  ~HeldStream() { LetGo(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void Release(const device::CopyJob& job) {
    hold_->Release(job);
    LetGo();
  }
  void GoOn() {
    hold_->GoOn();
    LetGo();
  }
  device::Status AddStream(device::Stream stream) { return hold_->AddStream(stream); }

  // Since when no stream of the process has waited; now, while one does.
  static Deadline::Clock::time_point NoneSince() {
    const auto now = Deadline::Clock::now();
    return held_ > 0 ? now : Deadline::Clock::time_point(Deadline::Clock::duration(none_since_));
  }

 private:
  void LetGo() {
    if (is_let_go_.exchange(true)) return;
    none_since_ = Deadline::Clock::now().time_since_epoch().count();
    --held_;
  }

  const std::shared_ptr<device::Hold> hold_;
  std::atomic<bool> is_let_go_ = false;
  static inline std::atomic<int> held_ = 0;
  static inline std::atomic<Deadline::Clock::rep> none_since_ = 0;
};

// The copy of a result to the device.
struct OutputCopy {
  enum class State { kNone, kCopying, kOver };
  State state = State::kNone;
  Status error;
  Deadline::Clock::time_point began_at{};
  std::optional<Deadline::Clock::time_point> moved_at;  // its last report; nullopt: it could not begin yet
};

// What becomes of an operation for which streams wait: the session finishes it.
struct Deferral {
  bool is_orphan = false;                   // its Work was destroyed
  bool has_unread_refusal = false;          // the daemon refused it, which no Wait has returned yet
  std::shared_ptr<HeldStream> hold;         // null once the streams need not wait any more
  std::optional<Result<OpResult>> outcome;  // set from then on
};

struct DevicePart {
  device::Library* library = nullptr;
  std::optional<std::int32_t> input;  // the device that has it; nullopt: host memory
  std::optional<std::int32_t> output;
  std::shared_ptr<device::Mark> submitted;  // the stream's work at the submission: copies come after it

  std::uint64_t number = 0;  // among the session's operations on device memory, in the order of their submission
  bool has_slot = true;      // the operation's slot is still its own
  bool reads_input = false;  // its copy is in flight
  Status input_error;        // the input will not arrive
  OutputCopy copy;
  std::optional<Deferral> deferral;

  std::shared_ptr<HeldStream> hold() const { return deferral ? deferral->hold : nullptr; }

  DevicePart() = default;
  ~DevicePart();
  DevicePart(const DevicePart&) = delete;
  DevicePart& operator=(const DevicePart&) = delete;

 private:
  const std::uint64_t generation_ = ForkGeneration();
};

// Returns where the memory of an operation is. Null: all of it is the host's. kNotSupported if it is a device's and
// there is no library for it; kInvalidArgument if it ends too soon, or as the library says. A forked child cannot query
// a device that the parent uses: memory for which the query fails counts as the host's.
struct MemoryRange {
  const void* data = nullptr;
  std::size_t bytes = 0;
};
Result<std::shared_ptr<DevicePart>> FindDeviceMemory(const MemoryRange& input, const MemoryRange& output);

// As device::ToStatus, where nothing was submitted: kDeviceFailed is reported only of submitted operations.
Status BeforeSubmission(const device::Status& status);

// Starts a copy, by Library::Start or Hold::Release, and calls `report` as CopyJob::report says: on the library's
// thread, once for each slice.
using CopyStarter = std::function<device::Status(const device::CopyJob&)>;
Status StartCopy(const CopyStarter& start, device::CopyJob job, std::function<void(std::size_t, const Status&)> report);

}  // namespace ringway::internal
