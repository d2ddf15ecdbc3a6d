// A large all-reduce that is under way while others are measured, on a channel of its own: one after another.
//
//   Allocate --> RunOnce --> [ KeepBusy ... ] --> Finish --> RunOnce ...
//
// All ranks take these steps alike, but each submits its next operation when it sees that its last one has ended: they
// agree on submitted() before they Finish. One thread, the session's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ringway/ringway.hpp>

namespace ringway::bench {

class Companion {
 public:
  // `timeout`: for each wait. `session` outlives it.
  Companion(Session* session, std::size_t bytes, std::chrono::milliseconds timeout);

  // Shared memory, twice the bytes. Before everything else.
  Error Allocate();
  // One operation from its submission to its end: paths and memory are warm then.
  Error RunOnce();
  // Submits one if none is under way. Returns the error of the last one.
  Error KeepBusy();
  // Whether the one that KeepBusy left under way still is.
  bool busy();
  // In its life.
  std::uint64_t submitted() const { return submitted_; }
  // Submits until it has submitted so many, as the other ranks have; then waits for all.
  Error Finish(std::uint64_t submitted);

 private:
  Error Submit();
  Error WaitForOldest();

  Session* const session_;
  const std::size_t bytes_;
  const std::chrono::milliseconds timeout_;
  Buffer input_;
  Buffer output_;
  std::deque<Work> works_;  // under way, oldest first
  std::uint64_t submitted_ = 0;
};

}  // namespace ringway::bench
