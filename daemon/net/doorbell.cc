#include "daemon/net/doorbell.h"

#include <asio/post.hpp>
#include <utility>

namespace ringway::net {

Doorbell::~Doorbell() {
  for (Callee* one = TakeAll(); one != nullptr;) {
    const std::shared_ptr<Callee> last = std::move(one->hold_);
    one = one->next_;
  }
}

void Doorbell::Ring(std::shared_ptr<Callee> callee) {
  Callee* const one = callee.get();
  // acq_rel on both sides: the turn that clears the mark sees all writes before it was set, or set again.
  if (one->waits_.exchange(true, std::memory_order_acq_rel)) return;
  one->hold_ = std::move(callee);
  Callee* newest = newest_.load(std::memory_order_relaxed);
  do {
    one->next_ = newest;
  } while (!newest_.compare_exchange_weak(newest, one, std::memory_order_release, std::memory_order_relaxed));
  if (newest == nullptr) asio::post(target_, [this] { CallAll(); });
}

Doorbell::Callee* Doorbell::TakeAll() {
  Callee* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  Callee* oldest = nullptr;
  while (newest != nullptr) {
    Callee* const next = newest->next_;
    newest->next_ = oldest;
    oldest = std::exchange(newest, next);
  }
  return oldest;
}

void Doorbell::CallAll() {
  for (Callee* one = TakeAll(); one != nullptr;) {
    const std::shared_ptr<Callee> callee = std::move(one->hold_);
    one = one->next_;
    // The callee may be rung again from here on, and then belongs to the list.
    callee->waits_.exchange(false, std::memory_order_acq_rel);
    callee->OnRung();
  }
}

}  // namespace ringway::net
