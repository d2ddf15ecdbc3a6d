#include "client/src/rejoiner.h"

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "proto/device/signals_blocked.h"

namespace ringway::internal {
namespace {

constexpr Milliseconds kPauseMin(20);
constexpr Milliseconds kPauseMax(500);
// A running daemon accepts at once; a stopped process must not delay Stop.
constexpr Milliseconds kConnectPatience(100);

// Returns whether no later attempt can change the refusal: the group may forget the old membership, a version stays.
bool IsForGood(const Status& refusal) {
  return refusal.code() == Code::kVersionMismatch || refusal.code() == Code::kInvalidArgument ||
         refusal.code() == Code::kNotSupported;
}

Status RefusedForGood(const JoinOptions& options, const Status& refusal) {
  return Status(refusal.code(), "joining again, the daemon at " + options.socket_path +
                                    " does not take this session: " + refusal.text() + "; the buffers are intact");
}

// kDaemonLost if no daemon was there; any other failure keeps its own code.
Status GivenUp(const JoinOptions& options, const Status& last) {
  // A timeout belongs to one call, and must not be what ended the session.
  const bool nobody = last.code() == Code::kDaemonUnreachable || last.code() == Code::kTimeout;
  const bool drained = last.code() == Code::kShuttingDown;
  return Status(nobody ? Code::kDaemonLost : last.code(),
                "joining again through " + options.socket_path + " failed for " +
                    std::to_string(options.reconnect.count()) + " ms; last: " + last.text() +
                    "; the buffers are intact: " +
                    (drained ? "join anew through another host's daemon, or when this one takes trainers again"
                             : "start ringwayd again and join anew"));
}

}  // namespace

Status Rejoiner::Start(const JoinOptions& options, std::uint64_t gone, Done done) {
  if (thread_.joinable()) thread_.join();
  try {
    const device::SignalsBlocked blocked;
    thread_ = std::thread([this, options, gone, done = std::move(done)] { Run(options, gone, done); });
  } catch (const std::exception& exception) {
    return Status(Code::kResourceExhausted, std::string("no thread to join again: ") + exception.what());
  }
  return {};
}

void Rejoiner::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (candidate_) candidate_->socket.Shutdown();
  }
  stop_called_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Rejoiner::Run(const JoinOptions& options, std::uint64_t gone, const Done& done) {
  Result<std::shared_ptr<Link>> found = Status(Code::kResourceExhausted, "out of memory while joining again");
  try {
    found = Search(options, gone);
  } catch (const std::bad_alloc&) {  // `found` already holds this error
  }
  if (Publish(nullptr)) done(std::move(found));
}

Result<std::shared_ptr<Link>> Rejoiner::Search(const JoinOptions& options, std::uint64_t gone) {
  const Deadline give_up(options.reconnect);
  for (Milliseconds pause = kPauseMin;; pause = std::min(2 * pause, kPauseMax)) {
    auto link = Attempt(options, gone);
    if (link.ok()) return link;
    if (IsForGood(link.status())) return RefusedForGood(options, link.status());
    if (give_up.HasPassed() || !Pause(Milliseconds(give_up.Within(pause).PollMilliseconds()))) {
      return GivenUp(options, link.status());
    }
  }
}

Result<std::shared_ptr<Link>> Rejoiner::Attempt(const JoinOptions& options, std::uint64_t gone) {
  auto link = Link::Connect(options.socket_path, Deadline(kConnectPatience));
  if (!link.ok()) return link;
  if (!Publish(link.value())) return Status(Code::kLeft, "the session has left its group");
  if (Status error = link.value()->Join(options, gone, {}, Deadline(options.timeout)); !error.ok()) return error;
  return link;
}

bool Rejoiner::Publish(const std::shared_ptr<Link>& candidate) {
  const std::lock_guard<std::mutex> lock(mutex_);
  candidate_ = candidate;
  return !stopped_;
}

bool Rejoiner::Pause(Milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !stop_called_.wait_for(lock, time, [this] { return stopped_; });
}

}  // namespace ringway::internal
