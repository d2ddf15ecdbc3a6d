#include "client/src/state/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/src/state/hashing.h"

namespace ringway::internal {
namespace {

// So that a long path is full of them.
constexpr std::size_t kOnWayMax = 8;

bool Contains(const std::vector<std::size_t>& ranks, std::size_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

Exchange::Exchange(StateBytes* state, const std::vector<Offer>& offers, const std::vector<std::vector<Hash>>& hashes,
                   std::size_t giver, std::size_t rank)
    : state_(state), rank_(rank), world_size_(offers.size()), wanted_(hashes[giver]) {
  for (std::size_t r = 0; r < world_size_; ++r) {
    if (offers[r].IsSameState(offers[giver]) && !offers[r].Is(StateStrategy::kReceive)) holders_.push_back(r);
  }
  for (std::size_t piece = 0; piece < wanted_.size(); ++piece) {
    Lacking lacking{piece, {}};
    for (std::size_t r = 0; r < world_size_; ++r) {
      if (hashes[r][piece] != wanted_[piece]) lacking.ranks.push_back(r);
    }
    if (!lacking.ranks.empty()) lacking_.push_back(std::move(lacking));
  }
}

Error Exchange::Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress) {
  StateProgress progress;
  for (const Lacking& lacking : lacking_) progress.of_bytes += state_->bytes_of(lacking.piece);
  const auto take = [&] {
    OnWay next = std::move(on_way_.front());
    on_way_.pop_front();
    progress.bytes += state_->bytes_of(next.piece);
    return Take(&next);
  };
  Error lost;
  for (const Lacking& lacking : lacking_) {
    if (on_way_.size() == kOnWayMax) lost = take();
    if (!lost.ok()) break;
    if (on_progress && !on_progress(progress)) {
      return Error(Code::kInterrupted, "on_progress has ended the exchange of the shared state: leave the group");
    }
    auto started = Start(session, lacking);
    if (!started.ok()) return started.error();
    on_way_.push_back(std::move(started.value()));
  }
  while (!on_way_.empty()) {  // after a loss, too: they end, and the next operation comes after them
    if (Error error = take(); !error.ok()) lost = std::move(error);
    if (!lost.ok() && lost.code() != Code::kPeerLost) break;
  }
  return lost;
}

Expected<Exchange::OnWay> Exchange::Start(Session& session, const Lacking& lacking) {
  const std::size_t bytes = state_->bytes_of(lacking.piece);
  const auto cut = [&](std::size_t stripe) { return bytes * stripe / holders_.size(); };
  OnWay made;
  made.piece = lacking.piece;
  std::vector<Part> sends(world_size_);
  std::vector<std::size_t> receives(world_size_);
  const auto mine = std::find(holders_.begin(), holders_.end(), rank_);
  if (mine != holders_.end()) {
    const auto stripe = static_cast<std::size_t>(mine - holders_.begin());
    const std::size_t own = cut(stripe + 1) - cut(stripe);
    auto input = session.Allocate(std::max<std::size_t>(own, 1));
    if (!input.ok()) return input.error();
    made.input = std::move(input.value());
    if (Error error = state_->Read(lacking.piece, cut(stripe), own, made.input.as<std::byte>()); !error.ok())
      return error;
    for (const std::size_t rank : lacking.ranks) sends[rank] = {0, own};
    sent_bytes_ += own * lacking.ranks.size();
  }
  if (Contains(lacking.ranks, rank_)) {
    auto output = session.Allocate(bytes);
    if (!output.ok()) return output.error();
    made.output = std::move(output.value());
    for (std::size_t stripe = 0; stripe < holders_.size(); ++stripe) {
      receives[holders_[stripe]] = cut(stripe + 1) - cut(stripe);
    }
  }
  std::byte none{};  // of ranks that neither give nor lack
  const void* const input = made.input.data() != nullptr ? made.input.data() : &none;
  void* const output = made.output.data() != nullptr ? made.output.data() : &none;
  auto work = session.AllToAllVAsync(input, sends, output, receives, DType::kU8);
  if (!work.ok()) return work.error();
  made.work = std::move(work.value());
  return made;
}

Error Exchange::Take(OnWay* piece) {
  if (const auto result = piece->work.Wait(); !result.ok()) return result.error();
  if (piece->output.data() == nullptr) return {};
  const std::size_t bytes = state_->bytes_of(piece->piece);
  received_bytes_ += bytes;
  if (HashOf(piece->output.data(), bytes) != wanted_[piece->piece]) {
    is_whole_ = false;
    return {};
  }
  auto content = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memcpy(content.get(), piece->output.data(), bytes);
  arrived_[piece->piece] = std::move(content);
  return {};
}

}  // namespace ringway::internal
