// Notifies objects on another thread's event loop. No lock of ours, no allocation a ring, and coalesced wake-ups: rings
// before the pending wake-up join it.
//
//   any thread: Ring(x) --> x is pending, once per any number of rings --> x->OnRung(), on the loop's thread, in order
//
// Writes before Ring happen before the OnRung that follows it. Bounded by the number of objects.
//
// Lifetime: outlives every handler of its loop. Holds pending objects; releases those never called when it is
// destroyed, which is when no other thread uses it any more.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <memory>

namespace ringway::net {

class Doorbell {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnRung() = 0;

   private:
    friend class Doorbell;
    std::atomic<bool> waits_ = false;
    // While pending:
    std::shared_ptr<Sink> hold_;
    Sink* next_ = nullptr;
  };

  explicit Doorbell(asio::io_context& target) : target_(target) {}
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // REQUIRES: `sink` is always rung at the same bell.
  void Ring(std::shared_ptr<Sink> sink);

 private:
  void CallAll();
  // Returns all pending objects, the first to ring first.
  Sink* TakeAll();

  asio::io_context& target_;
  std::atomic<Sink*> newest_ = nullptr;  // a list through next_; CallAll is posted exactly while it is not empty
};

}  // namespace ringway::net
