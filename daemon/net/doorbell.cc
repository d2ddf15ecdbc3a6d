#include "daemon/net/doorbell.h"

#include <asio/post.hpp>
#include <utility>

namespace ringway::net {

Doorbell::~Doorbell() {
  for (Sink* one = TakeAll(); one != nullptr;) {
    const std::shared_ptr<Sink> last = std::move(one->hold_);
    one = one->next_;
  }
}

void Doorbell::Ring(std::shared_ptr<Sink> sink) {
  Sink* const one = sink.get();
  // acq_rel on both sides: the turn that clears the mark sees all writes before it was set, or set again.
  if (one->waits_.exchange(true, std::memory_order_acq_rel)) return;
  one->hold_ = std::move(sink);
  Sink* newest = newest_.load(std::memory_order_relaxed);
  do {
    one->next_ = newest;
  } while (!newest_.compare_exchange_weak(newest, one, std::memory_order_release, std::memory_order_relaxed));
  if (newest == nullptr) asio::post(target_, [this] { CallAll(); });
}

Doorbell::Sink* Doorbell::TakeAll() {
  Sink* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  Sink* oldest = nullptr;
  while (newest != nullptr) {
    Sink* const next = newest->next_;
    newest->next_ = oldest;
    oldest = std::exchange(newest, next);
  }
  return oldest;
}

void Doorbell::CallAll() {
  for (Sink* one = TakeAll(); one != nullptr;) {
    const std::shared_ptr<Sink> sink = std::move(one->hold_);
    one = one->next_;
    // The sink may be rung again from here on, and then belongs to the list.
    sink->waits_.exchange(false, std::memory_order_acq_rel);
    sink->OnRung();
  }
}

}  // namespace ringway::net
