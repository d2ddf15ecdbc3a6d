// Operations whose ranks are all peers of this daemon: nothing is sent, for each can read the others' memory.
//
//   HostRound, one an operation and view:
//
//   Join (a rank's attempt has begun) --all ranks--> whole --Work, slice by slice--> over: each rank has the result
//     |                                                |
//     +---------------- Leave: an attempt has ended ---+--> void: the view is over, and the operation with it
//
// A segment is summed in order of rank while it is in cache, in memory of the daemon's, and written to every result:
// K reads and K writes for K ranks, and the same bytes for all, whatever their trainers write meanwhile. Whichever rank
// has an event makes the next segments; usually the one that has joined last makes all. Memory of a rank is used during
// Work only, while its attempt is live.
//
// Ownership: the daemon's; shared by its peers, which it does not own. Pure; one thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

class Executor;

// A peer of this daemon.
class BoardMember {
 public:
  // Its operation is over at a call of another member's. Must not call the board.
  virtual void OnRoundOver(const OpName& op) = 0;

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
    Executor* executor = nullptr;  // of a schedule that is in_process
    BoardMember* member = nullptr;
  };

  HostRound(Name name, std::uint32_t world_size) : name_(std::move(name)), world_size_(world_size) {}
  HostRound(const HostRound&) = delete;
  HostRound& operator=(const HostRound&) = delete;

  // Returns whether Work would make progress.
  bool can_advance() const;
  // Makes segments, about `bytes_max` that are read. Returns how many bytes were.
  std::uint64_t Work(Rank self, std::uint64_t bytes_max);
  // Whose operation is another one than this rank's; null: they agree so far.
  const Seat* DiffersFrom(Rank self) const;

 private:
  friend class HostBoard;

  bool is_whole() const { return !is_void_ && seats_.size() == world_size_; }
  void MakeSegment(std::uint32_t segment);
  void End(Rank self);

  const Name name_;
  const std::uint32_t world_size_;
  std::map<Rank, Seat> seats_;
  bool is_void_ = false;
  bool is_over_ = false;
  std::uint32_t next_ = 0;  // segment
  std::vector<std::byte> sum_;
};

class HostBoard {
 public:
  HostBoard() = default;
  HostBoard(const HostBoard&) = delete;
  HostBoard& operator=(const HostBoard&) = delete;

  void Enter(PeerId peer, BoardMember* member) { members_[peer] = member; }
  void Exit(PeerId peer) { members_.erase(peer); }
  // Returns whether they are all peers of this daemon. A peer is from before its first view to its end, so ranks of a
  // view answer alike, unless one of them has gone: then the view ends.
  bool HasAll(std::span<const PeerId> peers) const;

  // REQUIRES: the peer has entered; the rank has no seat there.
  HostRound* Join(const HostRound::Name& name, std::uint32_t world_size, Rank rank, PeerId peer, Executor* executor);
  void Leave(HostRound* round, Rank rank);

 private:
  std::map<PeerId, BoardMember*> members_;
  std::map<HostRound::Name, HostRound> rounds_;
};

}  // namespace ringway::collective
