// Calls what may block for ever (a resolver, a disk of a server that is gone) and waits a limited time. A call that
// does not come back is left behind on its thread, until the process ends: for programs that end soon.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace ringway::ctl {

// Nothing if it takes longer. `call` owns all that it touches.
template <typename T>
std::optional<T> Within(std::chrono::milliseconds timeout, std::function<T()> call) {
  auto task = std::make_shared<std::packaged_task<T()>>(std::move(call));
  std::future<T> result = task->get_future();
  std::thread thread([task] { (*task)(); });
  if (result.wait_for(timeout) != std::future_status::ready) {
    thread.detach();
    return std::nullopt;
  }
  thread.join();  // with what libraries keep for a thread
  return result.get();
}

}  // namespace ringway::ctl
