// Exchanges the pieces of a state: what each rank lacks, and which rank sends which stripe of it. The same plan on all
// ranks.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringway/shared_state.hpp>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"

namespace ringway::internal {

// The state that all take, and which ranks hold it.
struct Holders {
  Holders(const std::vector<Offer>& offers, std::size_t source);

  std::size_t source = 0;
  std::size_t world_size = 0;
  std::vector<std::size_t> ranks;
  std::vector<bool> have_it;  // by rank; also of ranks that receive
};

// Memory for pieces in flight, a place for each.
class Places {
 public:
  static constexpr std::size_t kMax = 8;  // enough to fill a long path

  // Up to `count` places of `bytes`, as many as the session has room for; an error if there is none.
  static Result<Places> Reserve(Session& session, std::size_t count, std::size_t bytes);
  // For small pieces, which the session copies on their way.
  static Places OfHeap(std::size_t count, std::size_t bytes);

  std::size_t count() const { return memory_.size(); }
  std::byte* at(std::size_t place) const { return memory_[place]; }

 private:
  std::vector<std::byte*> memory_;
  std::vector<Buffer> buffers_;
  std::vector<std::unique_ptr<std::byte[]>> heap_;
};

class Exchange {
 public:
  // `hashes` of all pieces, by rank; `rank` is this one.
  Exchange(StateBytes* state, Holders holders, const std::vector<std::vector<Hash>>& hashes, std::size_t rank);

  // Returns whether any rank lacks a piece, the same on all.
  bool IsNeeded() const { return !lacking_.empty(); }
  // Moves all pieces that any rank lacks. kPeerLost, on all ranks alike, ends it early. REQUIRES: IsNeeded.
  // `make_room` is called before shared memory is allocated; may be empty.
  Status Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress,
             const std::function<void()>& make_room);

  // The pieces that arrived unchanged, and whether those are all.
  Pieces TakeArrived() { return std::move(arrived_); }
  bool IsWhole() const { return is_whole_; }
  std::size_t received_bytes() const { return received_bytes_; }
  std::size_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Lacking {
    std::size_t piece = 0;
    std::vector<std::size_t> ranks;
  };
  bool Lacks(const Lacking& lacking) const;
  bool LacksAny() const;
  // Returns whether what this rank sends is first copied to shared memory.
  bool CopiesInputs() const { return stripe_.has_value() && !state_->is_in_buffer(); }
  Status ReservePlaces(Session& session, const std::function<void()>& make_room);
  Status MoveAll(Session& session, const std::function<bool(const StateProgress&)>& on_progress);
  Result<Work> Start(Session& session, std::size_t number);
  Status Take(Work* work, std::size_t number);

  StateBytes* const state_;
  const std::size_t rank_;
  const Holders holders_;
  const std::vector<Hash> wanted_;
  std::optional<std::size_t> stripe_;  // which this rank sends
  Places inputs_;                      // if it sends
  Places outputs_;                     // if it lacks pieces
  std::size_t window_ = 0;             // pieces in flight
  std::vector<Lacking> lacking_;
  Pieces arrived_;
  bool is_whole_ = true;
  std::size_t received_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace ringway::internal
