// Calls what may block for ever (a resolver, a disk of a server that is gone) and waits a limited time. A call that
// does not come back is left behind on its thread, until the process ends: for programs that end soon.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "proto/result.h"

namespace ringway::ctl {

// What a call returned, or kTimeout if it was late; nullopt: no thread could start for it.
template <typename T>
using Awaited = std::optional<Result<T>>;

// A call that runs on a thread of its own from the constructor on. `call` owns all that it touches.
template <typename T>
class Errand {
 public:
  explicit Errand(std::function<Result<T>()> call) {
    auto task = std::make_shared<std::packaged_task<Result<T>()>>(std::move(call));
    result_ = task->get_future();
    try {
      thread_ = std::thread([task] { (*task)(); });
    } catch (const std::system_error&) {  // the limit of threads, of a user or of a cgroup
    }
  }
  Errand(Errand&&) noexcept = default;
  ~Errand() {
    if (thread_.joinable()) thread_.detach();
  }

  // `late`: the text of kTimeout. Once.
  Awaited<T> Await(std::chrono::milliseconds timeout, const std::string& late) {
    if (!thread_.joinable()) return std::nullopt;
    if (result_.wait_for(timeout) != std::future_status::ready) return Status(Code::kTimeout, late);
    thread_.join();  // with what libraries keep for a thread
    return result_.get();
  }

 private:
  std::future<Result<T>> result_;
  std::thread thread_;
};

template <typename T>
Awaited<T> Within(std::chrono::milliseconds timeout, const std::string& late, std::function<Result<T>()> call) {
  return Errand<T>(std::move(call)).Await(timeout, late);
}

}  // namespace ringway::ctl
