// SyncState: who has what, by hash; then the pieces; then that all have all.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/state/exchange.h"
#include "client/src/state/hashing.h"

namespace ringway {
namespace {

using internal::Exchange;
using internal::Hash;
using internal::Offer;
using internal::Pieces;
using internal::StateBytes;

constexpr std::size_t kHashWords = sizeof(Hash) / sizeof(std::uint64_t);

// Each contributor's `words`, in rank order, one after the other.
Expected<OpResult> Gather(Session& session, const std::uint64_t* mine, std::size_t words,
                          std::vector<std::uint64_t>* all) {
  all->resize(words * session.world_size());
  auto result = session.AllGather(mine, words, all->data(), all->size(), DType::kU64);
  if (result.ok()) all->resize(words * result->world_size);
  return result;
}

class Syncing {
 public:
  Syncing(Session* session, StateBytes* state, const StateOptions& options)
      : session_(*session), state_(*state), options_(options) {}

  Expected<StateResult> Run() {
    auto own = state_.Hashes();
    if (!own.ok()) return own.error();
    own_ = std::move(own.value());
    hashes_ = own_;
    mine_ = {.layout = state_.layout(),
             .bytes = state_.bytes(),
             .content = internal::HashOf(own_.data(), own_.size() * sizeof(Hash)),
             .revision = options_.revision,
             .strategy = static_cast<std::uint64_t>(options_.strategy),
             .in_use = options_.in_use ? 1U : 0U};
    for (;;) {
      const auto is_over = Round();
      if (!is_over.ok()) return is_over.error();
      if (is_over.value()) return result_;
    }
  }

 private:
  // Returns whether all have the same state; if ranks were lost, another round is needed.
  Expected<bool> Round() {
    std::vector<std::uint64_t> words(internal::kOfferWords);
    std::memcpy(words.data(), &mine_, sizeof(mine_));
    std::vector<std::uint64_t> gathered;
    const auto view = Gather(session_, words.data(), words.size(), &gathered);
    if (!view.ok()) return view.error();
    std::vector<Offer> offers(view->world_size);
    std::memcpy(static_cast<void*>(offers.data()), gathered.data(), offers.size() * sizeof(Offer));
    const auto giver = internal::ChooseGiver(offers, view->rank);
    if (!giver.ok()) return giver.error();
    const Offer& chosen = offers[giver.value()];
    result_.revision = chosen.revision;
    const auto is_chosen = [&](const Offer& offer) { return offer.IsSameState(chosen); };
    if (state_.bytes() == 0 || std::all_of(offers.begin(), offers.end(), is_chosen)) return true;
    if (is_chosen(mine_)) {  // what came of another state is not needed
      arrived_.clear();
      hashes_ = own_;
    }
    return Move(offers, *view, giver.value());
  }

  Expected<bool> Move(const std::vector<Offer>& offers, const OpResult& view, std::size_t giver) {
    std::vector<std::uint64_t> gathered;
    const auto words = reinterpret_cast<const std::uint64_t*>(hashes_.data());
    const auto again = Gather(session_, words, hashes_.size() * kHashWords, &gathered);
    if (!again.ok()) return again.error();
    if (again->contributors != view.contributors) return false;
    std::vector<std::vector<Hash>> all(offers.size(), std::vector<Hash>(hashes_.size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::memcpy(static_cast<void*>(all[rank].data()), gathered.data() + rank * hashes_.size() * kHashWords,
                  hashes_.size() * sizeof(Hash));
    }
    Exchange exchange(&state_, offers, all, giver, view.rank);
    const Error moved = exchange.Run(session_, options_.on_progress);
    if (!moved.ok() && moved.code() != Code::kPeerLost) return moved;
    result_.received_bytes += exchange.received_bytes();
    result_.sent_bytes += exchange.sent_bytes();
    for (auto& [piece, content] : exchange.TakeArrived()) {
      hashes_[piece] = all[giver][piece];
      arrived_[piece] = std::move(content);
    }
    if (!moved.ok()) return false;
    return Adopt(exchange.IsWhole());
  }

  Expected<bool> Adopt(bool is_whole) {
    std::uint8_t whole = is_whole ? 1 : 0;
    const auto agreed = session_.AllReduce(&whole, &whole, 1, DType::kU8, ReduceOp::kMin);
    if (!agreed.ok()) return agreed.error();
    if (whole == 0) return Error(Code::kMismatch, "the shared state was written to while it was sent");
    if (Error error = state_.Write(arrived_); !error.ok()) return error;
    return true;
  }

  Session& session_;
  StateBytes& state_;
  const StateOptions& options_;
  Offer mine_;
  std::vector<Hash> own_;
  Pieces arrived_;            // also of a state that was chosen before
  std::vector<Hash> hashes_;  // with those
  StateResult result_;
};

}  // namespace

Expected<StateResult> internal::SyncBytes(Session& session, StateBytes& state, const StateOptions& options) {
  if (options.revision > internal::kRevisionMax) {
    return Error(Code::kInvalidArgument, "the revision is " + std::to_string(options.revision) + ": at most 2^62");
  }
  if (options.strategy > StateStrategy::kReceive) {
    return Error(Code::kInvalidArgument, "there is no such strategy for a shared state");
  }
  return Syncing(&session, &state, options).Run();
}

Expected<StateResult> SyncState(Session& session, const std::vector<StateTensor>& tensors,
                                const StateOptions& options) {
  return internal::NoThrow([&]() -> Expected<StateResult> {
    auto state = StateBytes::Make(tensors);
    if (!state.ok()) return state.error();
    return internal::SyncBytes(session, state.value(), options);
  });
}

}  // namespace ringway
