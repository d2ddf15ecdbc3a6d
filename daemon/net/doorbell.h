// Calls objects on another thread's event loop: "there is something for you". No lock of ours, no allocation a ring,
// and one wake-up for many: who rings while others wait to be called joins them.
//
//   any thread: Ring(x) --> x waits, once however often it is rung --> x->OnRung(), on the loop's thread, in that order
//
// What was written before Ring is seen by the OnRung that follows it. Bounded by the objects that there are.
//
// Lifetime: outlives every handler of its loop. It holds what it has to call; what it never came to call it lets go of
// when it is destroyed, which is when no other thread uses it any more.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <memory>

namespace ringway::net {

class Doorbell {
 public:
  class Callee {
   public:
    virtual ~Callee() = default;
    virtual void OnRung() = 0;

   private:
    friend class Doorbell;
    std::atomic<bool> waits_ = false;
    // Of who waits:
    std::shared_ptr<Callee> hold_;
    Callee* next_ = nullptr;
  };

  explicit Doorbell(asio::io_context& target) : target_(target) {}
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // REQUIRES: `callee` is always rung at the same bell.
  void Ring(std::shared_ptr<Callee> callee);

 private:
  void CallAll();
  // Everybody who waits, the first to ring first.
  Callee* TakeAll();

  asio::io_context& target_;
  std::atomic<Callee*> newest_ = nullptr;  // a list through next_; posted CallAll exactly while it is not empty
};

}  // namespace ringway::net
