#include "client/src/state/replay.h"

#include <utility>

#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/state/sync.h"
#include "client/src/state_channel.h"
#include "proto/device/signals_blocked.h"

namespace ringway::internal {
namespace {

constexpr Milliseconds kInterruptedPoll{100};

// Returns whether all ranks get it alike, and go on.
bool IsAgreed(Code code) {
  return code == Code::kPeerLost || code == Code::kDeadline || code == Code::kMismatch || code == Code::kCancelled;
}

// Calls `operation` until it succeeds, or fails on this rank alone, or for good.
template <typename Operation>
Status Repeat(const Operation& operation) {
  for (;;) {
    const auto result = WhenThereIsRoom(operation);
    if (result.ok() || !IsAgreed(result.status().code())) return result.status();
  }
}

}  // namespace

Result<StateCopy> StateCopy::Make(Buffer memory, std::vector<StateTensor> tensors, StateBytes* state) {
  auto* to = memory.as<std::byte>();
  for (std::size_t piece = 0; piece < state->piece_count(); ++piece) {
    if (Status error = state->Read(piece, 0, state->bytes_of(piece), to); !error.ok()) return error;
    to += state->bytes_of(piece);
  }
  to = memory.as<std::byte>();
  for (StateTensor& tensor : tensors) {
    tensor.data = to;
    to += tensor.bytes;
  }
  auto bytes = StateBytes::Make(tensors);
  if (!bytes.ok()) return bytes.status();
  bytes->SetBuffer(memory.as<std::byte>());
  return StateCopy{std::move(memory), std::move(bytes.value())};
}

Replay::Replay(const std::shared_ptr<SessionImpl>& session, const Begin& begin)
    : is_newcomers_(true), begin_(begin), session_(new Session(session)), now_(begin.revision) {}

Replay::Replay(const std::shared_ptr<SessionImpl>& session, const Begin& begin, StateCopy copy)
    : is_newcomers_(false), begin_(begin), session_(new Session(session)), now_(begin.revision) {
  Start([this, copy = std::make_shared<std::optional<StateCopy>>(std::move(copy))] {
    Prepared nothing;
    const auto synced =
        SyncBytes(*session_, (*copy)->bytes, {.revision = begin_.revision}, Standing::kTrains, &nothing);
    copy->reset();
    return synced.ok() || IsAgreed(synced.status().code()) ? Status() : synced.status();
  });
}

Replay::~Replay() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  if (thread_.joinable()) thread_.join();
  session_->impl_.reset();
}

void Replay::CatchUp() {
  if (!thread_.joinable()) Start([] { return Status(); });
}

void Replay::Start(std::function<Status()> first) {
  stopped_ = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stops_;
  };
  const device::SignalsBlocked blocked;
  thread_ = std::thread([this, first = std::move(first)] {
    auto last = NoThrow([&]() -> Result<std::uint64_t> {
      const OnStateChannel scope(begin_.peer_id, &stopped_);
      const Status begun = first();
      return begun.ok() ? Agree() : Result<std::uint64_t>(begun);
    });
    // The others would wait for it, unless it has rejoined: they have lost the peer that it was.
    if (!last.ok() && session_->peer_id() == begin_.peer_id) session_->Abort();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!said_) said_ = now_;  // it has failed, which the next boundary reports
    last_ = std::move(last);
    changed_.notify_all();
  });
}

Result<std::uint64_t> Replay::Agree() {
  if (Status error = Repeat([&] { return session_->Barrier(); }); !error.ok()) return error;
  std::uint64_t newest = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    said_ = newest = now_;
  }
  const auto max = [&] { return session_->AllReduce(&newest, &newest, 1, DType::kU64, ReduceOp::kMax); };
  if (Status error = Repeat(max); !error.ok()) return error;
  return newest;
}

bool Replay::IsOf(const Session& session) const {
  return session.impl_ == session_->impl_ && session.peer_id() == begin_.peer_id;
}

Result<bool> Replay::IsOver(std::uint64_t revision) {
  std::unique_lock<std::mutex> lock(mutex_);
  now_ = revision;
  if (!said_ || *said_ >= revision) return false;
  const Deadline forever = session_->impl_->Within(kForever);
  while (!changed_.wait_for(lock, kInterruptedPoll, [this] { return last_.has_value(); })) {
    lock.unlock();  // which a trainer's callback does not hold up
    const bool interrupted = forever.Interrupted();
    lock.lock();
    if (interrupted) return Status(Code::kInterrupted, "Advance was interrupted at the end of a replay: call it again");
  }
  if (!last_->ok()) return last_->status();
  return revision > last_->value();
}

}  // namespace ringway::internal
