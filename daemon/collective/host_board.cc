#include "daemon/collective/host_board.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "daemon/collective/executor.h"
#include "daemon/kernels/reduce.h"
#include "proto/check.h"
#include "proto/hash.h"

namespace ringway::collective {
namespace {

// Summed at once: it stays in the first-level cache, and no stream of inputs leaves its page.
constexpr std::size_t kBlockBytes = 4 * 1024;

}  // namespace

// ---- a round

bool HostRound::can_advance() const {
  if (!is_whole() || is_over_) return false;
  return std::all_of(seats_.begin(), seats_.end(),
                     [this](const auto& seat) { return seat.second.executor->HasInput(next_); });
}

std::uint64_t HostRound::Work(Rank self, std::uint64_t bytes_max) {
  std::uint64_t done = 0;
  while (done < bytes_max && can_advance()) {
    const Executor& first = *seats_.begin()->second.executor;
    done += seats_.size() * first.RoundSegment(next_).count * SizeOf(first.descriptor().dtype);
    MakeSegment(next_++);
    if (next_ == first.grid().Segments(0)) End(self);
  }
  return done;
}

void HostRound::MakeSegment(std::uint32_t segment) {
  const Executor& first = *seats_.begin()->second.executor;
  const Descriptor& d = first.descriptor();
  const Range range = first.RoundSegment(segment);
  const std::size_t element = SizeOf(d.dtype);
  const double scale = first.input_scale();
  sum_.resize(std::max(sum_.size(), range.count * element));
  for (std::size_t begin = 0; begin < range.count; begin += kBlockBytes / element) {
    const std::size_t count = std::min(range.count - begin, kBlockBytes / element);
    std::byte* const sum = sum_.data() + begin * element;
    const std::byte* so_far = nullptr;
    bool is_partial = false;
    for (const auto& [rank, seat] : seats_) {
      const std::byte* const input = seat.executor->RoundInput(range) + begin * element;
      if (so_far != nullptr) {
        kernels::Reduce(d.dtype, d.op, sum, so_far, input, count, {.a = is_partial ? 1 : scale, .b = scale});
        is_partial = true;
      }
      so_far = is_partial ? sum : input;
    }
    kernels::Finalize(d.dtype, d.op, sum, count, world_size_);
  }
  const std::span<const std::byte> bytes(sum_.data(), range.count * element);
  const std::uint64_t hash = Hash64(bytes);
  for (const auto& [rank, seat] : seats_) seat.executor->TakeRoundSegment(segment, bytes, hash);
}

void HostRound::End(Rank self) {
  is_over_ = true;
  sum_ = {};
  Stamp stamp = seats_.begin()->second.executor->stamp();
  for (const auto& [rank, seat] : seats_) {
    const Stamp own = seat.executor->stamp();
    stamp = {std::min(stamp.prepared, own.prepared), std::min(stamp.acknowledged, own.acknowledged)};
  }
  for (const auto& [rank, seat] : seats_) {
    seat.executor->EndRound(stamp);
    if (rank != self) seat.member->OnRoundOver(name_.op);
  }
}

const HostRound::Seat* HostRound::DiffersFrom(Rank self) const {
  const Descriptor& own = seats_.at(self).executor->descriptor();
  for (const auto& [rank, seat] : seats_) {
    if (seat.executor->descriptor() != own) return &seat;
  }
  return nullptr;
}

// ---- the board

bool HostBoard::HasAll(std::span<const PeerId> peers) const {
  return std::all_of(peers.begin(), peers.end(), [this](PeerId peer) { return members_.contains(peer); });
}

HostRound* HostBoard::Join(const HostRound::Name& name, std::uint32_t world_size, Rank rank, PeerId peer,
                           Executor* executor) {
  HostRound& round = rounds_.try_emplace(name, name, world_size).first->second;
  const bool is_new = round.seats_.emplace(rank, HostRound::Seat{peer, executor, members_.at(peer)}).second;
  RINGWAY_CHECK(is_new && round.world_size_ == world_size);
  if (round.DiffersFrom(rank) != nullptr) round.is_void_ = true;
  return &round;
}

void HostBoard::Leave(HostRound* round, Rank rank) {
  round->seats_.erase(rank);
  round->is_void_ = round->is_void_ || !round->is_over_;
  if (round->seats_.empty()) rounds_.erase(HostRound::Name(round->name_));
}

}  // namespace ringway::collective
