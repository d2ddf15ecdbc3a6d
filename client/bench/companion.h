// Large all-reduces, one after another, that keep a channel of their own busy while others are measured.
//
//   Allocate --> RunOnce --> [ KeepBusy ... ] --> Finish --> RunOnce ...
//
// All ranks take the same steps, but each submits its next operation when its own last one has ended: before Finish
// they agree on submitted(). One thread, the session's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ringway/ringway.hpp>

namespace ringway::bench {

class Companion {
 public:
  // `timeout`: of each wait. `session` outlives this.
  Companion(Session* session, std::size_t bytes, std::chrono::milliseconds timeout);

  // Allocates twice the bytes, shared. To be called first.
  Status Allocate();
  // Runs one operation to its end, which warms up paths and memory.
  Status RunOnce();
  // Submits one if none is under way. Returns the error of the last one.
  Status KeepBusy();
  // Returns whether KeepBusy's operation is still in flight.
  bool busy();
  // Total of this companion.
  std::uint64_t submitted() const { return submitted_; }
  // Submits until the total is `submitted`, as on the other ranks; then waits for all.
  Status Finish(std::uint64_t submitted);

 private:
  Status Submit();
  Status WaitForOldest();

  Session* const session_;
  const std::size_t bytes_;
  const std::chrono::milliseconds timeout_;
  Buffer input_;
  Buffer output_;
  std::deque<Work> works_;  // in flight, oldest first
  std::uint64_t submitted_ = 0;
};

}  // namespace ringway::bench
