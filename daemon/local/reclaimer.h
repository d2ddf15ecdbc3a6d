// Frees the memory of closed regions on a thread of its own.
//
// The last process to release a memfd frees its pages, and that is usually the daemon, after a trainer has died: 256
// MiB of input and as much of result take 100 to 300 ms, in which an event loop would miss its heartbeats.
//
// Threads: any may call. Bounded: with kWaitingMax items queued the caller frees the next itself. Lifetime: outlives
// its callers; the destructor waits until everything is freed.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "daemon/local/foreign_files.h"
#include "daemon/net/bounded_post.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

class Reclaimer {
 public:
  Reclaimer();
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // REQUIRES: nothing uses the memory any more.
  void Unmap(void* data, std::uint64_t bytes);
  // REQUIRES: a file in memory.
  void Close(net::UniqueFd fd);
  // Returns the thread that closes clients' files that are neither memory nor sockets. Threads: one.
  ForeignFiles& foreign() { return foreign_; }

 private:
  static constexpr std::size_t kWaitingMax = 4096;  // more than one session has

  template <typename Work>
  void Do(Work work) {
    if (!queue_.TryPost(work)) work();
  }

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> waits_for_work_;
  net::BoundedPost queue_;
  std::thread thread_;
  ForeignFiles foreign_;
};

}  // namespace ringway::local
