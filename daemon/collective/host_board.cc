#include "daemon/collective/host_board.h"

#include <utility>

#include "daemon/kernels/reduce.h"
#include "proto/check.h"
#include "proto/hash.h"

namespace ringway::collective {
namespace {

// Summed at once: it stays in the first-level cache, and no stream of inputs leaves its page.
constexpr std::size_t kBlockBytes = 4 * 1024;

}  // namespace

// ---- a round

bool HostRound::HasInputs(std::uint64_t bytes) const {
  return is_whole() && std::all_of(seats_.begin(), seats_.end(),
                                   [bytes](const auto& seat) { return seat.second.executor->input_ready() >= bytes; });
}

void HostRound::SumInputs(const Range& range, std::byte* to) const {
  const Executor& first = *seats_.begin()->second.executor;
  const Descriptor& d = first.descriptor();
  const std::size_t element = SizeOf(d.dtype);
  const double scale = first.input_scale();
  for (std::size_t begin = 0; begin < range.count; begin += kBlockBytes / element) {
    const std::size_t count = std::min(range.count - begin, kBlockBytes / element);
    std::byte* const sum = to + begin * element;
    const std::byte* so_far = nullptr;
    bool is_partial = false;
    for (const auto& [rank, seat] : seats_) {
      const std::byte* const input = seat.executor->InputOf(range) + begin * element;
      if (so_far != nullptr) {
        kernels::Reduce(d.dtype, d.op, sum, so_far, input, count, {.a = is_partial ? 1 : scale, .b = scale});
        is_partial = true;
      }
      so_far = is_partial ? sum : input;
    }
    if (has_all()) kernels::Finalize(d.dtype, d.op, sum, count, world_size_);
  }
}

Stamp HostRound::stamp() const {
  Stamp least = seats_.begin()->second.executor->stamp();
  for (const auto& [rank, seat] : seats_) least = Min(least, seat.executor->stamp());
  return least;
}

void HostRound::Copy(Rank self, const HostSegment& finished) {
  for (const auto& [rank, seat] : seats_) {
    if (rank == self) continue;
    seat.executor->TakeFinished(finished);
    if (seat.executor->complete()) seat.member->OnRoundAdvanced(name_.op);
  }
}

std::uint64_t HostRound::CopyHashed(Rank self, HostSegment finished) {
  copy_.assign(finished.bytes.begin(), finished.bytes.end());
  finished.bytes = copy_;
  finished.hash = Hash64(copy_);
  Copy(self, finished);
  if (seats_.at(self).executor->complete()) copy_ = {};
  return finished.hash;
}

void HostRound::NotifyOthers(Rank self) const {
  for (const auto& [rank, seat] : seats_) {
    if (rank != self) seat.member->OnRoundAdvanced(name_.op);
  }
}

bool HostRound::can_advance() const {
  if (!is_whole()) return false;
  const Executor& first = *seats_.begin()->second.executor;
  return next_ < first.grid().Segments(0) && HasInputs(first.InputUpto(first.grid().Segment(0, next_)));
}

std::uint64_t HostRound::Work(Rank self, std::uint64_t bytes_max) {
  std::uint64_t done = 0;
  while (done < bytes_max && can_advance()) {
    const Executor& first = *seats_.begin()->second.executor;
    done += seats_.size() * first.grid().Segment(0, next_).count * SizeOf(first.descriptor().dtype);
    MakeSegment(self, next_++);
  }
  return done;
}

void HostRound::MakeSegment(Rank self, std::uint32_t segment) {
  Executor& own = *seats_.at(self).executor;
  const Range range = own.grid().Segment(0, segment);
  copy_.resize(range.count * SizeOf(own.descriptor().dtype));
  SumInputs(range, copy_.data());
  const HostSegment made{.segment = segment, .bytes = copy_, .hash = Hash64(copy_), .stamp = stamp()};
  own.TakeFinished(made);
  Copy(self, made);
  if (own.complete()) copy_ = {};
}

const HostRound::Seat* HostRound::DiffersFrom(Rank self) const {
  const Descriptor& own = seats_.at(self).executor->descriptor();
  for (const auto& [rank, seat] : seats_) {
    if (seat.executor->descriptor() != own) return &seat;
  }
  return nullptr;
}

// ---- the board

std::vector<Rank> HostBoard::RanksHere(std::span<const PeerId> members) const {
  std::vector<Rank> ranks;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members_.contains(members[rank])) ranks.emplace_back(rank);
  }
  return ranks;
}

HostRound* HostBoard::Join(const HostRound::Name& name, const std::vector<Rank>& ranks, PeerId peer,
                           Executor* executor) {
  HostRound& round = rounds_.try_emplace(name, name, ranks, executor->world_size()).first->second;
  const Rank rank = executor->self();
  const bool is_new = round.seats_.emplace(rank, HostRound::Seat{peer, executor, members_.at(peer)}).second;
  RINGWAY_CHECK(is_new && round.world_size_ == executor->world_size());
  if (round.DiffersFrom(rank) != nullptr || round.ranks_ != ranks) round.is_void_ = true;
  if (round.has_all()) return &round;
  executor->SetHost(&round);
  if (round.is_whole()) round.NotifyOthers(rank);
  return &round;
}

void HostBoard::Leave(HostRound* round, Rank rank) {
  round->seats_.erase(rank);
  round->is_void_ = true;
  if (round->seats_.empty()) rounds_.erase(HostRound::Name(round->name_));
}

}  // namespace ringway::collective
