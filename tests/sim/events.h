// The event queue of simulated time, in an order that depends on the seed only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/clock.h"

namespace ringway::sim {

class EventQueue {
 public:
  using Run = std::function<void()>;

  TimePoint now() const { return now_; }
  std::uint64_t count() const { return count_; }  // events that have run

  // Events of the same time run in the order of these calls. A past time means now.
  void At(TimePoint when, Run run) {
    heap_.push_back({std::max(when, now_), order_++, std::move(run)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Duration delay, Run run) { At(now_ + delay, std::move(run)); }

  // Runs the next event. Returns false if there is none.
  bool Step() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.when;
    ++count_;
    event.run();
    return true;
  }

 private:
  struct Event {
    TimePoint when;
    std::uint64_t order = 0;
    Run run;
  };
  static bool Later(const Event& a, const Event& b) { return std::tie(a.when, a.order) > std::tie(b.when, b.order); }

  std::vector<Event> heap_;
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
  std::uint64_t order_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace ringway::sim
