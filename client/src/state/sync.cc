#include "client/src/state/sync.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/state/exchange.h"
#include "client/src/state/hashing.h"
#include "client/src/state/labels.h"
#include "client/src/state_channel.h"

namespace ringway {
namespace {

using internal::Exchange;
using internal::Hash;
using internal::Holders;
using internal::Offer;
using internal::Pieces;
using internal::StateBytes;

constexpr std::size_t kHashWords = sizeof(Hash) / sizeof(std::uint64_t);
constexpr std::size_t kOfferedHashes = 128;  // with the offer; the hashes of a larger state are gathered after it

// Returns each contributor's `words`, in rank order, one after the other.
Result<OpResult> Gather(Session& session, const std::uint64_t* mine, std::size_t words,
                        std::vector<std::uint64_t>* all) {
  all->resize(words * session.world_size());
  auto result =
      internal::WhenThereIsRoom([&] { return session.AllGather(mine, words, all->data(), all->size(), DType::kU64); });
  if (result.ok()) all->resize(words * result->world_size);
  return result;
}

Hash ContentOf(const std::vector<Hash>& hashes) {
  return internal::HashOf(hashes.data(), hashes.size() * sizeof(Hash));
}

// Returns whether it is a loss, which all ranks get alike: the survivors choose again.
bool IsLoss(const Status& error) { return error.code() == Code::kPeerLost; }

// Returns whether ranks may get different errors here, from which they do not recover by themselves.
bool IsOfThisRankAlone(Code code) {
  switch (code) {
    case Code::kResourceExhausted:
    case Code::kNotSupported:
    case Code::kInvalidArgument:
    case Code::kDeviceFailed:
    case Code::kIo:
    case Code::kTimeout:
    case Code::kInterrupted:
    case Code::kInternal:
      return true;
    default:
      return false;
  }
}

class Syncing {
 public:
  Syncing(Session* session, StateBytes* state, const StateOptions& options, internal::Standing standing)
      : session_(*session), state_(*state), options_(options), standing_(standing) {}

  Result<StateResult> Run(internal::Prepared* prepared) {
    make_room_ = prepared->make_room;
    prepared->replay_from = 0;
    internal::TakenState* const taken = prepared->taken;
    if (taken != nullptr && !taken->error.ok()) return taken->error;
    if (taken != nullptr && !taken->own.empty()) {
      own_ = std::move(taken->own);
      hashes_ = std::move(taken->held);
      replaced_ = &taken->replaced;
    } else {
      auto own = prepared->hashes.valid() ? prepared->hashes.get() : state_.Hashes();
      if (!own.ok()) return own.status();
      own_ = std::move(own.value());
      hashes_ = own_;
    }
    mine_ = {.layout = state_.layout(),
             .content = ContentOf(own_),
             .revision = options_.revision,
             .strategy = static_cast<std::uint64_t>(options_.strategy),
             .standing = static_cast<std::uint64_t>(standing_)};
    if (prepared->can_replay && prepared->can_replay()) mine_.strategy |= Offer::kReplays;
    for (;;) {
      const auto is_over = Round(prepared);
      if (!is_over.ok() && !IsLoss(is_over.status())) return is_over.status();
      if (is_over.ok() && is_over.value()) return result_;
    }
  }

 private:
  // What all ranks have, by rank.
  struct Offered {
    OpResult view;
    std::vector<Offer> offers;
    std::vector<std::vector<Hash>> hashes;  // of the first pieces, up to kOfferedHashes
  };
  Result<Offered> GatherOffers() {
    std::vector<std::uint64_t> words(internal::kOfferWords + kOfferedHashes * kHashWords);
    std::memcpy(words.data(), &mine_, sizeof(mine_));
    const std::size_t offered = std::min(hashes_.size(), kOfferedHashes);
    if (offered > 0) std::memcpy(words.data() + internal::kOfferWords, hashes_.data(), offered * sizeof(Hash));
    std::vector<std::uint64_t> gathered;
    const auto view = Gather(session_, words.data(), words.size(), &gathered);
    if (!view.ok()) return view.status();
    Offered all{.view = *view, .offers = {}, .hashes = {}};
    for (std::size_t rank = 0; rank < view->world_size; ++rank) {
      const std::uint64_t* const of_rank = gathered.data() + rank * words.size();
      std::memcpy(static_cast<void*>(&all.offers.emplace_back()), of_rank, sizeof(Offer));
      auto& hashes = all.hashes.emplace_back(offered);
      if (offered == 0) continue;
      std::memcpy(static_cast<void*>(hashes.data()), of_rank + internal::kOfferWords, offered * sizeof(Hash));
    }
    return all;
  }

  // Returns whether all have the same state; if ranks were lost, another round is needed.
  Result<bool> Round(internal::Prepared* prepared) {
    auto gathered = GatherOffers();
    if (!gathered.ok()) return gathered.status();
    const OpResult view = gathered->view;
    const std::vector<Offer>& offers = gathered->offers;
    if (!internal::HaveOneLayout(offers)) {
      const auto difference = ExplainDifference(offers, view);
      if (!difference.ok()) return difference.status();
      if (!internal::GoesTogether(offers, view.rank)) {
        return Status(Code::kMismatch, *difference + ": list the same tensors on all ranks");
      }
    }
    const auto source = internal::ChooseSource(offers, view.rank);
    if (!source.ok()) return source.status();
    const Offer& chosen = offers[source.value()];
    result_.revision = chosen.revision;
    prepared->chosen = chosen.content;
    const auto is_chosen = [&](const Offer& offer) { return offer.IsSameState(chosen); };
    if (is_chosen(mine_)) {  // pieces of another state are not needed
      arrived_.clear();
      if (replaced_ != nullptr) {
        if (Status error = replaced_->PutBack(); !error.ok()) return error;
      }
      hashes_ = own_;
    }
    if (state_.bytes() == 0 || std::all_of(offers.begin(), offers.end(), is_chosen)) return true;
    prepared->replay_from = internal::ReplayFrom(offers, source.value(), view.contributors);
    if (prepared->replay_from != 0) return true;
    // Those that have the chosen state may have offered hashes of other pieces, which they have just dropped.
    bool are_known = hashes_.size() <= kOfferedHashes;
    for (std::size_t rank = 0; are_known && rank < offers.size(); ++rank) {
      are_known = !is_chosen(offers[rank]) || ContentOf(gathered->hashes[rank]) == offers[rank].content;
    }
    if (!are_known) {
      if (Status error = GatherHashes(&gathered->hashes); !error.ok()) return error;
    }
    return Move(Holders(offers, source.value()), gathered->hashes, view.rank);
  }

  Status GatherHashes(std::vector<std::vector<Hash>>* all) {
    std::vector<std::uint64_t> words(hashes_.size() * kHashWords);
    std::memcpy(words.data(), hashes_.data(), hashes_.size() * sizeof(Hash));
    std::vector<std::uint64_t> gathered;
    const auto again = Gather(session_, words.data(), words.size(), &gathered);
    if (!again.ok()) return again.status();
    if (again->world_size != all->size()) return Status(Code::kPeerLost, "ranks were lost while hashes were compared");
    for (std::size_t rank = 0; rank < all->size(); ++rank) {
      (*all)[rank].resize(hashes_.size());
      std::memcpy(static_cast<void*>((*all)[rank].data()), gathered.data() + rank * words.size(),
                  hashes_.size() * sizeof(Hash));
    }
    return {};
  }

  // Returns how this rank's tensors differ from the reference rank's; where they do not, how those of the lowest rank
  // that differs do. All ranks call it for the same offers: each compares itself with the reference's list, and the
  // sentences are gathered.
  Result<std::string> ExplainDifference(const std::vector<Offer>& offers, const OpResult& view) {
    const std::size_t reference = internal::ReferenceRank(offers);
    const auto root = static_cast<std::uint32_t>(reference);
    internal::RankLabels theirs{reference, state_.labels()};
    std::uint64_t bytes = theirs.labels.size();
    if (const auto sent = session_.Broadcast(&bytes, 1, DType::kU64, root); !sent.ok()) return sent.status();
    theirs.labels.resize(std::min<std::uint64_t>(bytes, internal::kLabelsBytesMax));
    if (!theirs.labels.empty()) {
      const auto sent = session_.Broadcast(theirs.labels.data(), theirs.labels.size(), DType::kU8, root);
      if (!sent.ok()) return sent.status();
    }
    std::vector<std::uint64_t> words(internal::kDifferenceBytesMax / sizeof(std::uint64_t));
    if (offers[view.rank].layout != offers[reference].layout) {
      const std::string own = internal::FirstDifference(theirs, {view.rank, state_.labels()});
      std::memcpy(words.data(), own.data(), std::min(own.size(), internal::kDifferenceBytesMax));
    }
    std::vector<std::uint64_t> gathered;
    const auto again = Gather(session_, words.data(), words.size(), &gathered);
    if (!again.ok()) return again.status();
    if (again->contributors != view.contributors) {
      return Status(Code::kPeerLost, "ranks were lost while their shared states were compared");
    }
    const auto said_by = [&](std::size_t rank) {
      const auto* const text = reinterpret_cast<const char*>(gathered.data() + rank * words.size());
      return std::string(text, ::strnlen(text, internal::kDifferenceBytesMax));
    };
    std::size_t rank = view.rank;
    if (said_by(rank).empty()) rank = 0;
    while (rank + 1 < offers.size() && said_by(rank).empty()) ++rank;
    return said_by(rank);
  }

  Result<bool> Move(Holders holders, const std::vector<std::vector<Hash>>& hashes, std::size_t rank) {
    const std::size_t source = holders.source;
    Exchange exchange(&state_, std::move(holders), hashes, rank);
    if (exchange.IsNeeded()) {
      const Status moved = exchange.Run(session_, options_.on_progress, make_room_);
      if (!moved.ok() && !IsLoss(moved)) return moved;
      result_.received_bytes += exchange.received_bytes();
      result_.sent_bytes += exchange.sent_bytes();
      for (auto& [piece, content] : exchange.TakeArrived()) {
        hashes_[piece] = hashes[source][piece];
        arrived_[piece] = std::move(content);
      }
      if (!moved.ok()) return false;
      std::uint8_t whole = exchange.IsWhole() ? 1 : 0;
      const auto agreed =
          internal::WhenThereIsRoom([&] { return session_.AllReduce(&whole, &whole, 1, DType::kU8, ReduceOp::kMin); });
      if (!agreed.ok()) return agreed.status();
      if (whole == 0) return Status(Code::kMismatch, "the shared state was written to while it was sent");
    }
    if (Status error = state_.Write(arrived_); !error.ok()) {
      return Status(Code::kDeviceFailed, "the state that all others have has not reached this rank: " + error.text());
    }
    if (replaced_ != nullptr) replaced_->Drop();
    return true;
  }

  Session& session_;
  StateBytes& state_;
  const StateOptions& options_;
  const internal::Standing standing_;
  Offer mine_;
  std::vector<Hash> own_;
  Pieces arrived_;                                // perhaps also of a state that was chosen before
  internal::ReplacedPieces* replaced_ = nullptr;  // by what was taken before; put back by its owner after an error
  std::vector<Hash> hashes_;                      // with the arrived pieces
  std::function<void()> make_room_;
  StateResult result_;
};

}  // namespace

Result<StateResult> internal::SyncBytes(Session& session, StateBytes& state, const StateOptions& options,
                                        Standing standing, Prepared* prepared) {
  if (state.IsForked()) return ForkedError();
  if (options.revision > kRevisionMax) {
    return Status(Code::kInvalidArgument, "the revision is " + std::to_string(options.revision) + ": at most 2^62");
  }
  if (options.strategy > StateStrategy::kReceive) {
    return Status(Code::kInvalidArgument, "there is no such strategy for a shared state");
  }
  auto result = NoThrow([&] { return Syncing(&session, &state, options, standing).Run(prepared); });
  if (result.ok() || !IsOfThisRankAlone(result.status().code())) return result;
  session.Abort();
  return Status(result.status().code(), result.status().text() + "; this rank has left the group");
}

Result<StateResult> SyncState(Session& session, const std::vector<StateTensor>& tensors, const StateOptions& options) {
  return internal::NoThrow([&]() -> Result<StateResult> {
    auto state = StateBytes::Make(tensors);
    if (!state.ok()) return state.status();
    const auto standing = options.in_use ? internal::Standing::kTrains : internal::Standing::kNew;
    internal::Prepared nothing;
    return internal::SyncBytes(session, state.value(), options, standing, &nothing);
  });
}

}  // namespace ringway
