// Closes the files that clients have sent and that are neither memory nor sockets, on a thread of its own: no signal
// ends the close of a file whose file system does not answer, and with FUSE every user can have one.
//
// Clients of the library send none, so it may stay stuck: whose files are not closed gets no further session
// (HasTooMany), and the others go on. Bounded: kOpenMax files of a user, and one for each of its sessions.
//
// Threads: any may call; its own one is not waited for. Lifetime: callers' calls end before it does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "proto/stream/unique_fd.h"

namespace ringway::local {

class ForeignFiles {
 public:
  static constexpr std::size_t kOpenMax = 16;

  ForeignFiles() = default;
  ~ForeignFiles();
  ForeignFiles(const ForeignFiles&) = delete;
  ForeignFiles& operator=(const ForeignFiles&) = delete;

  // The first call starts the thread.
  void Close(net::UniqueFd fd, std::uint32_t user);
  // Returns whether kOpenMax files of the user are still open.
  bool HasTooMany(std::uint32_t user) const;

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::pair<net::UniqueFd, std::uint32_t>> files;
    std::map<std::uint32_t, std::size_t> open;  // of each user, with the one that is being closed
    bool is_over = false;
  };
  static void Serve(Queue& queue);

  std::shared_ptr<Queue> queue_;
};

}  // namespace ringway::local
