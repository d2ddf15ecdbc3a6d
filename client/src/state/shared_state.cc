#include <future>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/state/source.h"
#include "client/src/state/state_file.h"
#include "client/src/state/sync.h"
#include "client/src/state/taker.h"
#include "proto/device/signals_blocked.h"

namespace ringway {
namespace internal {

class SharedStateImpl {
 public:
  SharedStateImpl(StateBytes state, const SharedStateOptions& options)
      : state_(std::move(state)), revision_(options.revision), every_(options.every) {
    if (!options.path.empty()) file_.emplace(options.path);
  }

  Status Load() {
    if (!file_) return {};
    const auto kept = file_->Load(&state_);
    if (!kept.ok()) return kept.status();
    revision_ = kept->value_or(revision_);
    return {};
  }

  // A newcomer takes a large state before it is admitted, and then only what differs.
  Result<std::unique_ptr<Session>> Join(const JoinOptions& options) {
    if (state_.IsForked()) return ForkedError();
    Taker taker(&state_, options, Taker::LimitFor(state_.bytes()));
    OnHeld on_held;
    if (state_.bytes() >= kTakenBytesMin) on_held = [&](const HeldMembership& held) { taker.Take(held); };
    auto joined = SessionImpl::Join(options, on_held);
    if (!joined.ok()) return joined.status();
    std::unique_ptr<Session> session(new Session(std::move(joined.value())));
    if (const auto synced = Sync(*session, {.taken = &taker.taken()}); !synced.ok()) {
      return synced.status();
    }
    return session;
  }

  Result<StateResult> Sync(Session& session, Prepared prepared = {}) {
    prepared.make_room = [this] { sources_.Clear(); };
    for (;;) {
      const std::uint64_t synced_as = session.peer_id();  // a new peer has to sync again
      const Standing standing = !synced_as_                ? Standing::kNew
                                : *synced_as_ != synced_as ? Standing::kRejoined
                                                           : Standing::kTrains;
      auto result = SyncBytes(session, state_, {.revision = revision_}, standing, &prepared);
      if (!result.ok() && prepared.taken != nullptr) (void)std::exchange(prepared.taken, nullptr)->replaced.PutBack();
      if (result.status().code() == Code::kRejoined) continue;  // now a newcomer, which makes the same calls
      if (!result.ok()) return NotOfTheFile(result.status());
      revision_ = result->revision;
      synced_as_ = synced_as;
      return result;
    }
  }

  Result<bool> Advance(Session& session, bool update_waits) {
    if (state_.IsForked()) return ForkedError();
    ++revision_;
    if (!update_waits && state_.bytes() >= kTakenBytesMin) {
      sources_.AtBoundary(session.impl_->options(), session.peer_id(), session.impl_->Newcomers(), &state_);
    }
    if (update_waits) {
      Prepared prepared{.hashes = HashInBackground()};
      if (Status error = UpdateView(session); !error.ok()) {
        --revision_;
        return NotOfTheFile(error);
      }
      if (const auto synced = Sync(session, std::move(prepared)); !synced.ok()) return synced.status();
    }
    if (file_ && revision_ % every_ == 0) {
      if (const Status error = file_->Save(revision_, &state_); !error.ok()) return Status(Code::kIo, error.text());
    }
    return update_waits;
  }

  std::uint64_t revision() const { return revision_; }
  bool IsAsked(const Session& session) const {
    return !state_.IsForked() && state_.bytes() >= kTakenBytesMin && sources_.AreAsked(session.impl_->Newcomers());
  }

 private:
  // The trainer writes nothing before Advance returns, so the state is hashed while the view changes.
  std::future<Result<std::vector<Hash>>> HashInBackground() {
    const device::SignalsBlocked blocked;
    return std::async(std::launch::async | std::launch::deferred,  // the latter where no thread can be started
                      [this] { return NoThrow([this] { return state_.Hashes(); }); });
  }

  // Also ok if this rank has become a newcomer meanwhile, which makes the same next call.
  Status UpdateView(Session& session) const {
    for (;;) {
      const auto updated = session.UpdateView();
      if (updated.status().code() != Code::kRejoined) return updated.status();
      if (synced_as_ != session.peer_id()) return {};
      // Another thread got kRejoined before, and has taken the state: nothing was submitted here.
    }
  }

  // Keeps kIo for a file that could not be saved.
  static Status NotOfTheFile(const Status& error) {
    return error.code() == Code::kIo ? Status(Code::kDaemonLost, error.text()) : error;
  }

  StateBytes state_;
  std::uint64_t revision_;
  const std::uint64_t every_;
  std::optional<StateFile> file_;
  std::optional<std::uint64_t> synced_as_;  // this rank's peer id then
  Sources sources_;
};

}  // namespace internal

SharedState::SharedState(std::unique_ptr<internal::SharedStateImpl> impl) : impl_(std::move(impl)) {}
SharedState::SharedState(SharedState&&) noexcept = default;
SharedState& SharedState::operator=(SharedState&&) noexcept = default;
SharedState::~SharedState() = default;

namespace {

Status NoState() { return Status(Code::kInvalidArgument, "this shared state is empty (moved from)"); }

}  // namespace

Result<SharedState> SharedState::Make(std::vector<StateTensor> tensors, const SharedStateOptions& options) {
  return internal::NoThrow([&]() -> Result<SharedState> {
    if (options.every == 0) return Status(Code::kInvalidArgument, "every is 0; it is 1 or more revisions");
    auto state = internal::StateBytes::Make(tensors);
    if (!state.ok()) return state.status();
    SharedState made(std::make_unique<internal::SharedStateImpl>(std::move(state.value()), options));
    if (Status error = made.impl_->Load(); !error.ok()) return error;
    return made;
  });
}

Result<std::unique_ptr<Session>> SharedState::Join(const JoinOptions& options) {
  return internal::NoThrow([&]() -> Result<std::unique_ptr<Session>> {
    if (!impl_) return NoState();
    return impl_->Join(options);
  });
}

Result<StateResult> SharedState::Sync(Session& session) {
  if (!impl_) return NoState();
  return internal::NoThrow([&] { return impl_->Sync(session); });
}

Result<bool> SharedState::Advance(Session& session, bool update_waits) {
  if (!impl_) return NoState();
  return internal::NoThrow([&] { return impl_->Advance(session, update_waits); });
}

bool SharedState::IsAsked(const Session& session) const { return impl_ && impl_->IsAsked(session); }

std::uint64_t SharedState::revision() const { return impl_ ? impl_->revision() : 0; }

}  // namespace ringway
