#include "client/src/state/exchange.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "client/src/session.h"
#include "client/src/state/hashing.h"
#include "client/src/state_channel.h"

namespace ringway::internal {
namespace {

constexpr std::size_t kHeapBytesMax = std::size_t{64} << 10;

}  // namespace

Holders::Holders(const std::vector<Offer>& offers, std::size_t source_rank)
    : source(source_rank), world_size(offers.size()), have_it(offers.size()) {
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    have_it[rank] = offers[rank].IsSameState(offers[source]);
    if (have_it[rank] && !offers[rank].Is(StateStrategy::kReceive)) ranks.push_back(rank);
  }
}

Result<Places> Places::Reserve(Session& session, std::size_t count, std::size_t bytes) {
  Places places;
  const std::size_t room = std::max<std::size_t>(session.impl_->regions().RoomFor(bytes), 1);
  while (places.count() < std::min(count, room)) {
    auto buffer = session.Allocate(bytes);
    if (!buffer.ok() && places.count() == 0) return buffer.status();
    if (!buffer.ok()) break;
    places.memory_.push_back(buffer->as<std::byte>());
    places.buffers_.push_back(std::move(buffer.value()));
  }
  return places;
}

Places Places::OfHeap(std::size_t count, std::size_t bytes) {
  Places places;
  for (std::size_t i = 0; i < count; ++i) {
    places.heap_.push_back(std::make_unique<std::byte[]>(bytes));
    places.memory_.push_back(places.heap_.back().get());
  }
  return places;
}

Exchange::Exchange(StateBytes* state, Holders holders, const std::vector<std::vector<Hash>>& hashes, std::size_t rank)
    : state_(state), rank_(rank), holders_(std::move(holders)), wanted_(hashes[holders_.source]) {
  const auto mine = std::find(holders_.ranks.begin(), holders_.ranks.end(), rank_);
  if (mine != holders_.ranks.end()) stripe_ = static_cast<std::size_t>(mine - holders_.ranks.begin());
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

bool Exchange::LacksAny() const {
  return std::any_of(lacking_.begin(), lacking_.end(), [this](const Lacking& one) { return Lacks(one); });
}

// Ranks may have room for different numbers of pieces: all use the smallest, so that they are equally far when a rank
// is lost. Small pieces need no room, so nothing has to be agreed on.
Status Exchange::ReservePlaces(Session& session, const std::function<void()>& make_room) {
  std::size_t largest = 0;
  for (const Lacking& lacking : lacking_) largest = std::max(largest, state_->bytes_of(lacking.piece));
  window_ = std::min(Places::kMax, lacking_.size());
  const std::size_t stripe_bytes = (largest + holders_.ranks.size() - 1) / holders_.ranks.size();
  const bool lacks = LacksAny();
  if (largest <= kHeapBytesMax) {
    if (CopiesInputs()) inputs_ = Places::OfHeap(window_, stripe_bytes);
    if (lacks) outputs_ = Places::OfHeap(window_, largest);
    return {};
  }
  if (make_room) make_room();
  std::uint64_t count = window_;
  for (const bool sends : {true, false}) {
    if (sends ? !CopiesInputs() : !lacks) continue;
    auto places = Places::Reserve(session, window_, sends ? stripe_bytes : largest);
    if (!places.ok()) return places.status();
    count = std::min<std::uint64_t>(count, places->count());
    (sends ? inputs_ : outputs_) = std::move(places.value());
  }
  const auto agreed =
      WhenThereIsRoom([&] { return session.AllReduce(&count, &count, 1, DType::kU64, ReduceOp::kMin); });
  if (!agreed.ok()) return agreed.status();
  if (agreed->world_size != holders_.world_size) return Status(Code::kPeerLost, "ranks were lost before the exchange");
  window_ = std::clamp<std::size_t>(count, 1, window_);
  return {};
}

Status Exchange::Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress,
                     const std::function<void()>& make_room) {
  const Status reserved = ReservePlaces(session, make_room);
  return reserved.ok() ? MoveAll(session, on_progress) : reserved;
}

Status Exchange::MoveAll(Session& session, const std::function<bool(const StateProgress&)>& on_progress) {
  StateProgress progress;
  for (const Lacking& lacking : lacking_) progress.of_bytes += state_->bytes_of(lacking.piece);
  std::deque<Work> on_way;
  std::size_t taken = 0;
  const auto take = [&]() -> Status {
    Work next = std::move(on_way.front());
    on_way.pop_front();
    Status error = Take(&next, taken);
    if (error.code() != Code::kResourceExhausted) progress.bytes += state_->bytes_of(lacking_[taken++].piece);
    return error;
  };
  Status lost;
  std::size_t number = 0;  // of the next to start
  while (lost.ok() && (number < lacking_.size() || !on_way.empty())) {
    if (number == lacking_.size() || on_way.size() == window_) lost = take();
    if (lost.code() == Code::kResourceExhausted && OnStateChannel::AwaitRoom()) {
      // The daemon had no room. It has refused those after this piece, too, until it knows that all have been read.
      for (; !on_way.empty(); on_way.pop_front()) (void)on_way.front().Wait();
      number = taken;
      lost = {};
    }
    if (!lost.ok() || number == lacking_.size()) continue;
    if (on_progress && !on_progress(progress)) {
      return Status(Code::kInterrupted, "on_progress has ended the exchange of the shared state");
    }
    auto started = WhenThereIsRoom([&] { return Start(session, number); });
    if (!started.ok()) return started.status();
    on_way.push_back(std::move(started.value()));
    ++number;
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
  const std::vector<std::size_t>& sources = holders_.ranks;
  const auto cut = [&](std::size_t stripe) { return bytes * stripe / sources.size(); };
  std::byte none{};  // for ranks that neither send nor lack
  std::byte* input = CopiesInputs() ? inputs_.at(number % window_) : &none;
  std::byte* output = Lacks(lacking) ? outputs_.at(number % window_) : &none;
  std::vector<Part> sends(holders_.world_size);
  std::vector<std::size_t> receives(holders_.world_size);
  if (stripe_) {
    const std::size_t own = cut(*stripe_ + 1) - cut(*stripe_);
    if (state_->is_in_buffer()) {
      input = state_->InBuffer(lacking.piece, cut(*stripe_));
    } else if (Status error = state_->Read(lacking.piece, cut(*stripe_), own, input); !error.ok()) {
      return error;
    }
    for (const std::size_t rank : lacking.ranks) sends[rank] = {0, own};
    sent_bytes_ += own * lacking.ranks.size();
  }
  if (Lacks(lacking)) {
    for (std::size_t stripe = 0; stripe < sources.size(); ++stripe) {
      receives[sources[stripe]] = cut(stripe + 1) - cut(stripe);
    }
  }
  return session.AllToAllVAsync(input, sends, output, receives, DType::kU8);
}

Status Exchange::Take(Work* work, std::size_t number) {
  if (const auto result = work->Wait(); !result.ok()) return result.status();
  const Lacking& lacking = lacking_[number];
  if (!Lacks(lacking)) return {};
  const std::byte* const content = outputs_.at(number % window_);
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
