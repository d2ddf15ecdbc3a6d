// A process of another user of this host: a forked child of the test that is nobody's, or somebody's, and no longer
// root's.
//
// Threads: one, and no sessions of the client library in the test itself, for a child inherits no threads. Failures of
// the child's expectations are its own; Succeeded says whether there were any.
#pragma once

#include <sys/types.h>

#include <functional>

#include "proto/stream/unique_fd.h"

namespace ringway::e2e {

class OtherUser {
 public:
  // The child as its work sees it.
  class Child {
   public:
    Child(int ready, int stop) : ready_(ready), stop_(stop) {}
    // Lets WaitUntilReady go on.
    void Ready() const;
    // Returns whether Stop has been called.
    bool Stopped() const;

   private:
    int ready_;
    int stop_;
  };

  // Runs `work` as user and group `id`. REQUIRES: the test is root's.
  OtherUser(uid_t id, const std::function<void(const Child&)>& work);
  // SIGKILL if it still runs.
  ~OtherUser();
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  // Returns false if the child ends, or does not say so within the patience.
  [[nodiscard]] bool WaitUntilReady() const;
  void Stop() const;
  // Waits for its end; whether it came and no expectation failed.
  [[nodiscard]] bool Succeeded();

 private:
  net::UniqueFd ready_;
  net::UniqueFd stop_;
  pid_t pid_ = -1;
};

}  // namespace ringway::e2e
