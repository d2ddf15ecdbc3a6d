#include "tests/device/test_stream.h"

#include <deque>
#include <thread>
#include <utility>

#include "proto/device/signals_blocked.h"

namespace ringway::testing {

void Gate::Open() {
  std::vector<std::function<void()>> then;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
    then.swap(then_);
  }
  for (const auto& next : then) next();
}

void Gate::WhenOpen(std::function<void()> next) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_open_) return then_.push_back(std::move(next));
  }
  next();
}

void Gate::Pass() {
  std::unique_lock<std::mutex> lock(mutex_);
  opened_.wait(lock, [this] { return is_open_; });
}

struct TestStream::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool is_ending = false;
  std::thread thread;
};

TestStream::TestStream() : state_(std::make_shared<State>()) {
  const device::SignalsBlocked blocked;
  state_->thread = std::thread([state = state_.get()] {
    std::unique_lock<std::mutex> lock(state->mutex);
    for (;;) {
      state->changed.wait(lock, [state] { return state->is_ending || !state->queue.empty(); });
      if (state->queue.empty()) return;
      const auto work = std::move(state->queue.front());
      state->queue.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  });
}

TestStream::~TestStream() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->is_ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void TestStream::Enqueue(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->queue.push_back(std::move(work));
  }
  state_->changed.notify_all();
}

void TestStream::Synchronize() {
  const auto reached = std::make_shared<Gate>();
  Enqueue([reached] { reached->Open(); });
  reached->Pass();
}

}  // namespace ringway::testing
