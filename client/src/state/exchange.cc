#include "client/src/state/exchange.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "client/src/session.h"
#include "client/src/state/hashing.h"

namespace ringway::internal {

Holders::Holders(const std::vector<Offer>& offers, std::size_t giver_rank)
    : giver(giver_rank), world_size(offers.size()), have_it(offers.size()) {
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    have_it[rank] = offers[rank].IsSameState(offers[giver]);
    if (have_it[rank] && !offers[rank].Is(StateStrategy::kReceive)) ranks.push_back(rank);
  }
}

Result<Places> Places::Reserve(Session& session, const StateBytes& state, const Holders& holders, std::size_t rank) {
  Places places;
  const bool gives = std::find(holders.ranks.begin(), holders.ranks.end(), rank) != holders.ranks.end();
  if (!gives && holders.have_it[rank]) return places;
  const std::size_t piece = std::min(state.bytes(), kStatePieceBytes);
  const std::size_t stripes = gives ? holders.ranks.size() : 1;
  const std::size_t bytes = (piece + stripes - 1) / stripes;
  std::vector<Buffer>& buffers = gives ? places.inputs_ : places.outputs_;
  const std::size_t room = std::max<std::size_t>(session.impl_->regions().RoomFor(bytes), 1);
  const std::size_t useful = std::min({kMax, state.piece_count(), room});
  while (buffers.size() < useful) {
    auto buffer = session.Allocate(bytes);
    if (!buffer.ok() && buffers.empty()) return buffer.status();
    if (!buffer.ok()) break;
    buffers.push_back(std::move(buffer.value()));
  }
  places.count_ = buffers.size();
  return places;
}

Exchange::Exchange(StateBytes* state, Holders holders, const std::vector<std::vector<Hash>>& hashes, std::size_t rank,
                   Places places, std::size_t window)
    : state_(state),
      rank_(rank),
      holders_(std::move(holders)),
      wanted_(hashes[holders_.giver]),
      places_(std::move(places)),
      window_(window) {
  for (std::size_t piece = 0; piece < wanted_.size(); ++piece) {
    Lacking lacking{piece, {}};
    for (std::size_t r = 0; r < hashes.size(); ++r) {
      if (hashes[r][piece] != wanted_[piece]) lacking.ranks.push_back(r);
    }
    if (!lacking.ranks.empty()) lacking_.push_back(std::move(lacking));
  }
}

bool Exchange::Lacks(const Lacking& lacking) const {
  return std::find(lacking.ranks.begin(), lacking.ranks.end(), rank_) != lacking.ranks.end();
}

Status Exchange::Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress) {
  StateProgress progress;
  for (const Lacking& lacking : lacking_) progress.of_bytes += state_->bytes_of(lacking.piece);
  std::deque<Work> on_way;
  std::size_t taken = 0;
  const auto take = [&] {
    Work next = std::move(on_way.front());
    on_way.pop_front();
    progress.bytes += state_->bytes_of(lacking_[taken].piece);
    return Take(&next, taken++);
  };
  Status lost;
  for (std::size_t number = 0; number < lacking_.size(); ++number) {
    if (on_way.size() == window_) lost = take();
    if (!lost.ok()) break;
    if (on_progress && !on_progress(progress)) {
      return Status(Code::kInterrupted, "on_progress has ended the exchange of the shared state");
    }
    auto started = Start(session, number);
    if (!started.ok()) return started.status();
    on_way.push_back(std::move(started.value()));
  }
  while (!on_way.empty()) {  // even after a loss: they end, and the next operation comes after them
    if (!lost.ok() && lost.code() != Code::kPeerLost) break;
    if (Status error = take(); !error.ok()) lost = std::move(error);
  }
  return lost;
}

Result<Work> Exchange::Start(Session& session, std::size_t number) {
  const Lacking& lacking = lacking_[number];
  const std::size_t bytes = state_->bytes_of(lacking.piece);
  const std::vector<std::size_t>& givers = holders_.ranks;
  const auto cut = [&](std::size_t stripe) { return bytes * stripe / givers.size(); };
  std::byte none{};  // for ranks that neither send nor lack
  std::byte* input = places_.input(number % window_);
  std::byte* output = places_.output(number % window_);
  std::vector<Part> sends(holders_.world_size);
  std::vector<std::size_t> receives(holders_.world_size);
  const auto mine = std::find(givers.begin(), givers.end(), rank_);
  if (mine != givers.end()) {
    const auto stripe = static_cast<std::size_t>(mine - givers.begin());
    const std::size_t own = cut(stripe + 1) - cut(stripe);
    if (Status error = state_->Read(lacking.piece, cut(stripe), own, input); !error.ok()) return error;
    for (const std::size_t rank : lacking.ranks) sends[rank] = {0, own};
    sent_bytes_ += own * lacking.ranks.size();
  }
  if (Lacks(lacking)) {
    for (std::size_t stripe = 0; stripe < givers.size(); ++stripe) {
      receives[givers[stripe]] = cut(stripe + 1) - cut(stripe);
    }
  }
  return session.AllToAllVAsync(input != nullptr ? input : &none, sends, output != nullptr ? output : &none, receives,
                                DType::kU8);
}

Status Exchange::Take(Work* work, std::size_t number) {
  if (const auto result = work->Wait(); !result.ok()) return result.status();
  const Lacking& lacking = lacking_[number];
  if (!Lacks(lacking)) return {};
  const std::byte* const content = places_.output(number % window_);
  const std::size_t bytes = state_->bytes_of(lacking.piece);
  received_bytes_ += bytes;
  if (HashOf(content, bytes) != wanted_[lacking.piece]) {
    is_whole_ = false;
    return {};
  }
  auto kept = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memcpy(kept.get(), content, bytes);
  arrived_[lacking.piece] = std::move(kept);
  return {};
}

}  // namespace ringway::internal
