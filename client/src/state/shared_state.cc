#include <future>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/state/replay.h"
#include "client/src/state/source.h"
#include "client/src/state/state_file.h"
#include "client/src/state/sync.h"
#include "client/src/state/taker.h"
#include "client/src/state_channel.h"
#include "proto/device/signals_blocked.h"

namespace ringway {
namespace internal {

class SharedStateImpl {
 public:
  // `tensors`: the state's.
  SharedStateImpl(std::vector<StateTensor> tensors, StateBytes state, const SharedStateOptions& options)
      : state_(std::move(state)), revision_(options.revision), every_(options.every) {
    may_replay_ = options.replay && state_.bytes() >= kReplayedBytesMin;
    if (may_replay_) tensors_ = std::move(tensors);
    if (!options.path.empty()) file_.emplace(options.path);
  }

  ~SharedStateImpl() {
    if (state_.IsForked()) (void)replay_.release();  // its thread is the parent's
  }
  SharedStateImpl(const SharedStateImpl&) = delete;
  SharedStateImpl& operator=(const SharedStateImpl&) = delete;

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
    if (state_.bytes() >= kTakenBytesMin && !may_replay_)
      on_held = [&](const HeldMembership& held) { taker.Take(held); };
    auto joined = SessionImpl::Join(options, on_held);
    if (!joined.ok()) return joined.status();
    std::unique_ptr<Session> session(new Session(std::move(joined.value())));
    Prepared prepared;
    if (on_held) prepared.taken = &taker.taken();
    if (const auto synced = Sync(*session, std::move(prepared)); !synced.ok()) {
      return synced.status();
    }
    return session;
  }

  Result<StateResult> Sync(Session& session, Prepared prepared = {}) {
    const bool has_replayed = is_replaying();
    EndReplay(session);
    prepared.make_room = [this] { sources_.Clear(); };
    for (;;) {
      const std::uint64_t synced_as = session.peer_id();  // a new peer has to sync again
      const Standing standing = !synced_as_                ? Standing::kNew
                                : *synced_as_ != synced_as ? Standing::kRejoined
                                : has_replayed             ? Standing::kRejoined  // it may have erred
                                                           : Standing::kTrains;
      const bool is_new = standing != Standing::kTrains;
      prepared.can_replay = [this, is_new, &session] {
        return (is_new ? may_replay_ : copy_.has_value()) && session.impl_->CanGoWithout();
      };
      auto result = SyncBytes(session, state_, {.revision = revision_}, standing, &prepared);
      if (!result.ok() && prepared.taken != nullptr) (void)std::exchange(prepared.taken, nullptr)->replaced.PutBack();
      if (result.ok() && prepared.replay_from != 0) {
        result = BeginReplay(session, {.peer_id = synced_as, .revision = result->revision}, *result, prepared);
      }
      copy_.reset();
      if (result.status().code() == Code::kRejoined) continue;  // now a newcomer, which makes the same calls
      if (!result.ok()) return NotOfTheFile(result.status());
      revision_ = result->revision;
      synced_as_ = synced_as;
      session.impl_->regions().ForgetPeak();
      if (!replay_) may_replay_ = !tensors_.empty();
      return result;
    }
  }

  Result<bool> Advance(Session& session, bool update_waits) {
    if (state_.IsForked()) return ForkedError();
    ++revision_;
    if (!update_waits && state_.bytes() >= kTakenBytesMin) {
      sources_.AtBoundary(session.impl_->options(), session.peer_id(), session.impl_->Newcomers(), &state_);
    }
    if (replay_) {
      const auto is_over = ReplayIsOver(session);
      const bool has_rejoined = is_over.status().code() == Code::kRejoined;
      if (!is_over.ok() && !has_rejoined) {
        --revision_;
        return NotOfTheFile(is_over.status());
      }
      if (is_over.ok() && !is_over.value()) return Saved(false);
      if (has_rejoined || !update_waits) {
        const auto compared = Sync(session);
        return compared.ok() ? Saved(true) : compared.status();
      }
    }
    if (update_waits) {
      Prepared prepared{.hashes = HashInBackground(session)};
      if (Status error = UpdateView(session); !error.ok()) {
        --revision_;
        prepared.hashes.wait();
        copy_.reset();
        return NotOfTheFile(error);
      }
      if (const auto synced = Sync(session, std::move(prepared)); !synced.ok()) return synced.status();
    }
    return Saved(update_waits);
  }
  bool is_replaying() const { return replay_ != nullptr && replay_->is_newcomers(); }
  // Returns whether the ranks have yet to agree on the boundary at which they compare their states.
  bool IsInReplay(const Session& session) const { return replay_ != nullptr && replay_->IsOf(session); }

  std::uint64_t revision() const { return revision_; }
  bool IsAsked(const Session& session) const {
    if (state_.IsForked()) return false;
    if (replay_) return true;  // the boundary that ends it may be the next
    return state_.bytes() >= kTakenBytesMin && sources_.AreAsked(session.impl_->Newcomers());
  }

 private:
  // The trainer writes nothing before Advance returns, so the state is copied and hashed while the view changes.
  std::future<Result<std::vector<Hash>>> HashInBackground(Session& session) {
    const device::SignalsBlocked blocked;
    return std::async(std::launch::async | std::launch::deferred,  // the latter where no thread can be started
                      [this, &session] {
                        return NoThrow([&] {
                          if (may_replay_) Copy(session);
                          return copy_ ? copy_->bytes.Hashes() : state_.Hashes();
                        });
                      });
  }
  // No copy where there is no room for it beside what the training uses.
  void Copy(Session& session) {
    auto memory = session.impl_->Allocate(state_.bytes(), RegionUse::kSpare);
    if (!memory.ok()) return;
    auto copy = StateCopy::Make(std::move(memory.value()), tensors_, &state_);
    if (copy.ok()) copy_.emplace(std::move(copy.value()));
  }

  // Members give what they have copied; newcomers take it, and go on when they have it.
  Result<StateResult> BeginReplay(Session& session, const Replay::Begin& begin, const StateResult& result,
                                  const Prepared& chosen) {
    session.impl_->GoWithout({.as_peer = begin.peer_id, .from = chosen.replay_from});
    if (begin.peer_id < chosen.replay_from) {
      replay_ = std::make_unique<Replay>(session.impl_, begin, std::move(*copy_));
      return result;
    }
    may_replay_ = false;  // until it has all: whoever is dropped meanwhile takes the state at the admission
    Prepared own;
    const OnStateChannel scope(begin.peer_id, nullptr);
    auto taken = SyncBytes(session, state_, {.revision = revision_}, Standing::kNew, &own);
    if (!taken.ok()) return taken;
    if (own.chosen != chosen.chosen) {
      session.Abort();
      return Status(Code::kPeerLost, "all ranks that had the state have left the group");
    }
    replay_ = std::make_unique<Replay>(session.impl_, begin);
    return taken;
  }
  Result<bool> ReplayIsOver(Session& session) {
    if (is_replaying() && session.impl_->view().behind == 0) replay_->CatchUp();
    auto is_over = replay_->IsOver(revision_);
    if (!is_over.ok() && is_over.status().code() != Code::kInterrupted) EndReplay(session);
    return is_over;
  }
  void EndReplay(Session& session) {
    if (!replay_) return;
    replay_.reset();
    session.impl_->GoWithout({});
  }

  // Ends a step: saves the state if it is due. Returns `admitted`.
  Result<bool> Saved(bool admitted) {
    if (file_ && revision_ % every_ == 0) {
      if (const Status error = file_->Save(revision_, &state_); !error.ok()) return Status(Code::kIo, error.text());
    }
    return admitted;
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
  bool may_replay_ = false;
  std::vector<StateTensor> tensors_;  // of a state that may be copied
  std::optional<StateCopy> copy_;     // of this boundary
  std::unique_ptr<Replay> replay_;    // between admission and the newcomer's first input
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
    SharedState made(
        std::make_unique<internal::SharedStateImpl>(std::move(tensors), std::move(state.value()), options));
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
  if (impl_->IsInReplay(session)) {
    return Status(Code::kInvalidArgument,
                  "Sync while a newcomer replays, which its end would do: go on with steps until Advance returns true");
  }
  return internal::NoThrow([&] { return impl_->Sync(session); });
}

Result<bool> SharedState::Advance(Session& session, bool update_waits) {
  if (!impl_) return NoState();
  return internal::NoThrow([&] { return impl_->Advance(session, update_waits); });
}

bool SharedState::IsAsked(const Session& session) const { return impl_ && impl_->IsAsked(session); }

bool SharedState::is_replaying() const { return impl_ && impl_->is_replaying(); }

std::uint64_t SharedState::revision() const { return impl_ ? impl_->revision() : 0; }

}  // namespace ringway
