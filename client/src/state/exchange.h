// Exchanges the pieces of a state: what each rank lacks, and which rank sends which stripe of it. The same plan on all
// ranks.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringway/shared_state.hpp>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"

namespace ringway::internal {

// The state that all take, and which ranks hold it.
struct Holders {
  Holders(const std::vector<Offer>& offers, std::size_t giver);

  std::size_t giver = 0;
  std::size_t world_size = 0;
  std::vector<std::size_t> ranks;
  std::vector<bool> have_it;  // by rank; also of ranks that receive
};

// Memory for pieces in flight, a place for each. Ranks may have room for different numbers: all use the smallest, so
// that they are equally far when a rank is lost.
class Places {
 public:
  static constexpr std::size_t kMax = 8;  // enough to fill a long path

  // Allocates as many places for pieces of `state` as the session has room for. An error if there is none.
  static Result<Places> Reserve(Session& session, const StateBytes& state, const Holders& holders, std::size_t rank);

  std::size_t count() const { return count_; }
  std::byte* input(std::size_t place) const { return inputs_.empty() ? nullptr : inputs_[place].as<std::byte>(); }
  std::byte* output(std::size_t place) const { return outputs_.empty() ? nullptr : outputs_[place].as<std::byte>(); }

 private:
  std::size_t count_ = kMax;
  std::vector<Buffer> inputs_;   // if this rank sends
  std::vector<Buffer> outputs_;  // if this rank lacks pieces
};

class Exchange {
 public:
  // `hashes` of all pieces, by rank; `rank` is this one, `window` the places that all have.
  Exchange(StateBytes* state, Holders holders, const std::vector<std::vector<Hash>>& hashes, std::size_t rank,
           Places places, std::size_t window);

  // Moves all pieces that any rank lacks. kPeerLost, on all ranks alike, ends it early.
  Status Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress);

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
  Result<Work> Start(Session& session, std::size_t number);
  Status Take(Work* work, std::size_t number);

  StateBytes* const state_;
  const std::size_t rank_;
  const Holders holders_;
  const std::vector<Hash> wanted_;
  const Places places_;
  const std::size_t window_;
  std::vector<Lacking> lacking_;
  Pieces arrived_;
  bool is_whole_ = true;
  std::size_t received_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace ringway::internal
