// A bounded queue into another thread's event loop: the only way values cross threads in the daemon.
//
// TryPost(f) runs f on the target's thread, in the order of posting. If `capacity` posts are pending it returns false
// and posts nothing; each caller states its rule for that case (close a link, end the connection to the master, drop a
// log line). It never blocks and takes no lock of ours.
//
// Lifetime: outlives every handler that it posted, as does the target's io_context. Any thread may post.
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
