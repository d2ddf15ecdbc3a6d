// Rejoins a session's group after its daemon went away or the others evicted it, on a thread that lives only meanwhile.
//
//   Start -> connect, hello, join -> done(link)
//                 ^         |
//                 +-backoff-+  until JoinOptions::reconnect has passed -> done(error)
//
//                 +-refused for good (another version) -----------------> done(error)
//
// Other refusals are retried like any failure: the group may not have noticed the loss of the old membership yet. The
// daemon instance that went away is not joined again, even if it still exists.
//
// Threads: the session calls Start and Stop, never concurrently. `done` runs on the thread, once, without any lock of
// this class; not at all if Stop came first.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <ringway/ringway.hpp>
#include <thread>

#include "client/src/link.h"

namespace ringway::internal {

class Rejoiner {
 public:
  using Done = std::function<void(Result<std::shared_ptr<Link>>)>;

  Rejoiner() = default;
  ~Rejoiner() { Stop(); }
  Rejoiner(const Rejoiner&) = delete;
  Rejoiner& operator=(const Rejoiner&) = delete;

  // `gone`: the instance of the daemon that went away; 0: none did. kResourceExhausted if no thread can be created.
  // REQUIRES: an earlier `done` has been called.
  Status Start(const JoinOptions& options, std::uint64_t gone, Done done);
  // Aborts at once and joins the thread. REQUIRES: no lock is held that `done` takes.
  void Stop();

 private:
  void Run(const JoinOptions& options, std::uint64_t gone, const Done& done);
  Result<std::shared_ptr<Link>> Search(const JoinOptions& options, std::uint64_t gone);
  Result<std::shared_ptr<Link>> Attempt(const JoinOptions& options, std::uint64_t gone);
  // Returns false once Stop was called.
  bool Publish(const std::shared_ptr<Link>& candidate);
  bool Pause(Milliseconds time);

  std::mutex mutex_;
  std::condition_variable stop_called_;
  bool stopped_ = false;
  std::shared_ptr<Link> candidate_;  // whose join is under way
  std::thread thread_;
};

}  // namespace ringway::internal
