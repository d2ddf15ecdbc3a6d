// The threads that move the bytes of lanes, and the factory of lanes on them.
//
// A lane for segments of every size belongs to one lane thread for life, chosen by its label. Lanes for small segments
// stay on the owner's own loop: small operations are not limited by bandwidth. Without lane threads all lanes do.
//
//   owner's loop (data thread)                      lane thread, 0 to N - 1
//     ThreadedLane, core, reduce      <-- rings -->   StreamLane: system calls, checksums; its own scratch pool
//
// Nothing waits for a lane thread: a slow one delays its own lanes only, which then look stalled.
//
// Threads: the owner's, except constructor and destructor, which run while its loop does not. Lifetime: outlives the
// lanes' owners; releases lanes that are still closing when it ends.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/net/doorbell.h"
#include "daemon/net/lane.h"
#include "daemon/net/scratch_pool.h"

namespace ringway::net {

// An event loop for lanes, with the objects that only its thread may use.
class LaneThread {
 public:
  LaneThread();
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  asio::io_context& context() { return context_; }
  ScratchPool& pool() { return pool_; }
  Doorbell& bell() { return bell_; }
  // Handles pending rings, then stops; blocks until then.
  void Stop();

 private:
  ScratchPool pool_;
  asio::io_context context_{1};
  Doorbell bell_{context_};
  asio::executor_work_guard<asio::io_context::executor_type> waits_for_work_;
  std::thread thread_;
};

class LaneThreads {
 public:
  LaneThreads(asio::io_context& home, std::size_t count);
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  std::shared_ptr<Lane> MakeLane(const LaneLabel& label, std::uint32_t send_payload_bytes_max);

 private:
  asio::io_context& home_;
  ScratchPool home_pool_;
  std::vector<std::unique_ptr<LaneThread>> threads_;
  Doorbell home_bell_;
};

}  // namespace ringway::net
