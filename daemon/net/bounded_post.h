// A bounded queue into another thread's event loop: the only way values cross threads in the daemon.
//
// TryPost(f) runs f on the target's thread, in the order of posting. When `capacity` posts wait there already it posts
// nothing and says so; what happens then is the caller's rule, stated where it posts (a link is closed, a connection to
// the master is ended, a log line is dropped). It never blocks and takes no lock of ours.
//
// Lifetime: outlives every handler that it posted; the target's io_context too. Any thread may post.
#pragma once

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cstddef>
#include <utility>

namespace ringway::net {

class BoundedPost {
 public:
  BoundedPost(asio::io_context& target, std::size_t capacity) : target_(target), capacity_(capacity) {}
  BoundedPost(const BoundedPost&) = delete;
  BoundedPost& operator=(const BoundedPost&) = delete;

  template <typename Function>
  [[nodiscard]] bool TryPost(Function&& function) {
    if (waiting_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    asio::post(target_, [this, run = std::forward<Function>(function)]() mutable {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      run();
    });
    return true;
  }

 private:
  asio::io_context& target_;
  std::size_t capacity_;
  std::atomic<std::size_t> waiting_ = 0;
};

}  // namespace ringway::net
