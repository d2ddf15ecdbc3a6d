// The pieces of a state on their way: what each rank lacks, and who gives which stripe of it. The same plan on all
// ranks.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <ringway/shared_state.hpp>
#include <vector>

#include "client/src/state/choose.h"
#include "client/src/state/state_bytes.h"

namespace ringway::internal {

class Exchange {
 public:
  // `offers`, and `hashes` of all pieces, by rank; `giver` has the state that all take, `rank` is this one.
  Exchange(StateBytes* state, const std::vector<Offer>& offers, const std::vector<std::vector<Hash>>& hashes,
           std::size_t giver, std::size_t rank);

  // Moves all pieces that any rank lacks. kPeerLost, on all ranks alike, ends it early.
  Error Run(Session& session, const std::function<bool(const StateProgress&)>& on_progress);

  // What has arrived as it should, and that it was all.
  Pieces TakeArrived() { return std::move(arrived_); }
  bool IsWhole() const { return is_whole_; }
  std::size_t received_bytes() const { return received_bytes_; }
  std::size_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Lacking {
    std::size_t piece = 0;
    std::vector<std::size_t> ranks;
  };
  struct OnWay {
    std::size_t piece = 0;
    Buffer input;
    Buffer output;
    Work work;
  };
  Expected<OnWay> Start(Session& session, const Lacking& lacking);
  Error Take(OnWay* piece);

  StateBytes* const state_;
  const std::size_t rank_;
  const std::size_t world_size_;
  std::vector<std::size_t> holders_;
  std::vector<Hash> wanted_;
  std::vector<Lacking> lacking_;
  std::deque<OnWay> on_way_;
  Pieces arrived_;
  bool is_whole_ = true;
  std::size_t received_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
};

// SyncState, of bytes.
Expected<StateResult> SyncBytes(Session& session, StateBytes& state, const StateOptions& options);

}  // namespace ringway::internal
