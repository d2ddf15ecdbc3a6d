// Operations of several ranks of this daemon, which read each other's memory: nothing travels between them.
//
//   HostRound, one an operation and view: the ranks of this daemon that take part
//
//   Join (a rank's attempt has begun) --all of them--> whole --> each rank has the result
//     |                                                  |
//     +---------------- Leave: an attempt has ended -----+--> void: the view is over, and the operation with it
//
//   ranks of the view    who sums, and what
//   all are here         Work: the round, segment by segment; usually the rank that has joined last makes all
//   some are elsewhere   each rank's executor (Schedule::sums_host): SumInputs for chunks that it sends or finishes,
//                        Copy for those that it has finished, or received
//
// Inputs are summed in order of rank, while they are in cache. A finished segment is copied to every result from memory
// of the daemon's: K reads and K writes for K ranks, and the same bytes for all, whatever their trainers write
// meanwhile. A chunk is copied to all at once, when all their inputs are in it: so all of them complete together, and
// none leaves before. Memory of a rank is used during a call only, while its attempt is live.
//
// Ownership: the daemon's; shared by its peers, which it does not own. Pure; one thread.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/collective/executor.h"
#include "proto/collective/grid.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

// A peer of this daemon.
class BoardMember {
 public:
  // Its operation can go on: a call of another member's has brought inputs, or the result. Must not call the board.
  virtual void OnRoundAdvanced(const OpName& op) = 0;

 protected:
  ~BoardMember() = default;
};

class HostRound {
 public:
  struct Name {
    std::string group;
    Epoch epoch;
    OpName op;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  struct Seat {
    PeerId peer;
    Executor* executor = nullptr;  // of a schedule that is in_process or sums_host
    BoardMember* member = nullptr;
  };

  // `ranks`: of this daemon, ascending.
  HostRound(Name name, std::vector<Rank> ranks, std::uint32_t world_size)
      : name_(std::move(name)), ranks_(std::move(ranks)), world_size_(world_size) {}
  HostRound(const HostRound&) = delete;
  HostRound& operator=(const HostRound&) = delete;

  // Returns whether all ranks of the view are here.
  bool has_all() const { return ranks_.size() == world_size_; }
  bool Includes(Rank rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }
  // Whose operation is another one than this rank's; null: they agree so far.
  const Seat* DiffersFrom(Rank self) const;

  // ---- all ranks are here
  // Returns whether Work would make progress.
  bool can_advance() const;
  // Makes segments, about `bytes_max` that are read. Returns how many bytes were.
  std::uint64_t Work(Rank self, std::uint64_t bytes_max);

  // ---- some are elsewhere
  // Returns whether all have joined, and have staged their inputs up to here.
  bool HasInputs(std::uint64_t bytes) const;
  // REQUIRES: HasInputs.
  void SumInputs(const Range& range, std::byte* to) const;
  // The least of all that have joined.
  Stamp stamp() const;
  // Copies what `self` has to the others. CopyHashed for bytes that its trainer may write to; returns their hash.
  void Copy(Rank self, const HostSegment& finished);
  std::uint64_t CopyHashed(Rank self, HostSegment finished);
  void NotifyOthers(Rank self) const;

 private:
  friend class HostBoard;

  bool is_whole() const { return !is_void_ && seats_.size() == ranks_.size(); }
  void MakeSegment(Rank self, std::uint32_t segment);

  const Name name_;
  const std::vector<Rank> ranks_;
  const std::uint32_t world_size_;
  std::map<Rank, Seat> seats_;
  bool is_void_ = false;
  std::uint32_t next_ = 0;       // segment of Work
  std::vector<std::byte> copy_;  // of a finished segment
};

class HostBoard {
 public:
  HostBoard() = default;
  HostBoard(const HostBoard&) = delete;
  HostBoard& operator=(const HostBoard&) = delete;

  void Enter(PeerId peer, BoardMember* member) { members_[peer] = member; }
  void Exit(PeerId peer) { members_.erase(peer); }
  // Returns the ranks of peers of this daemon, of a view with these members. A peer is from before its first view to
  // its end, so ranks of a view answer alike, unless one of them has gone: then the view ends.
  std::vector<Rank> RanksHere(std::span<const PeerId> members) const;

  // `ranks`: RanksHere. REQUIRES: the peer has entered; the rank is one of them and has no seat there.
  HostRound* Join(const HostRound::Name& name, const std::vector<Rank>& ranks, PeerId peer, Executor* executor);
  void Leave(HostRound* round, Rank rank);

 private:
  std::map<PeerId, BoardMember*> members_;
  std::map<HostRound::Name, HostRound> rounds_;
};

}  // namespace ringway::collective
