// A member's side of a state that travels before its newcomer is admitted (state_messages.h).
//
//   the page names a newcomer --> Source: joins their group of two on a thread of its own
//   end of a step             --> requests are read; pieces are copied into shared memory and sent from there
//   kNoMore, a loss, silence  --> over; after the latter two another one is tried
//
// Steps are not held up: copying takes a tenth of a step, or one piece. It copies while the trainer is in Advance,
// never while it may write; pieces of different steps may go together, because what the newcomer lacks is compared
// again when it is admitted. Where each of the first steps changes the piece in the middle, nothing is sent.
//
// Threads: the trainer's, but for joining the groups.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/src/state/state_bytes.h"
#include "client/src/state/state_messages.h"

namespace ringway::internal {

// Sends the state to one newcomer.
class Source {
 public:
  using Clock = std::chrono::steady_clock;

  // `options`: of a session in their group. `places_max`: pieces that it may have in shared memory at once.
  Source(std::uint64_t newcomer, const JoinOptions& options, const StateBytes& state, std::size_t places_max);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Answers requests until `until`; the first one always, if `must`. Returns whether it goes on.
  bool AtBoundary(StateBytes* state, Clock::time_point until, bool must);
  std::uint64_t newcomer() const { return newcomer_; }
  std::size_t places_max() const { return places_max_; }
  bool is_joining() const { return opening_.load() == Opening::kJoining; }
  // Returns whether another one would be of no use: the newcomer wants no more, or was refused.
  bool is_final() const { return is_over_ || has_refused_; }

 private:
  // An answer on its way, and the content after it.
  struct Sent {
    std::unique_ptr<std::uint64_t> word;
    std::vector<Work> works;
    std::size_t place = 0;
  };
  struct Asked {
    std::unique_ptr<PieceRequest> request;
    Work work;
  };
  enum class Opening : std::uint8_t { kJoining, kOpen, kFailed };

  void Open(JoinOptions options, std::size_t places, std::size_t piece_bytes);
  Status Listen();
  Status TakeRequests();
  Status Reap();
  Status Serve(StateBytes* state, const PieceRequest& request);
  Status Reply(Answer answer, std::size_t place, std::size_t bytes);
  Status LookForChanges(StateBytes* state);

  std::atomic<bool> stopped_ = false;
  std::atomic<Opening> opening_ = Opening::kJoining;
  std::unique_ptr<Session> session_;
  std::vector<Buffer> places_;
  std::vector<std::size_t> free_;  // places
  std::deque<Asked> listening_;
  std::deque<PieceRequest> wanted_;
  std::deque<Sent> sent_;
  Clock::time_point moved_at_ = Clock::now();  // when the newcomer took the last content
  bool is_over_ = false;                       // the newcomer wants no more
  bool has_refused_ = false;
  std::optional<Hash> middle_;  // the hash of the piece in the middle
  int looks_ = 0;
  int changes_ = 0;
  const std::uint64_t newcomer_;
  const std::size_t places_max_;
  const std::uint64_t generation_;
  std::unique_ptr<std::thread> thread_;
};

// Sends it to all newcomers that ask for it. One whose source has failed is tried again, a few times; the newcomer does
// the same.
class Sources {
 public:
  // At the end of a step of the session. `newcomers`: those that ask now.
  void AtBoundary(const JoinOptions& options, std::uint64_t self, const std::vector<std::uint64_t>& newcomers,
                  StateBytes* state);

  // Returns whether AtBoundary would read the state now.
  bool AreAsked(const std::vector<std::uint64_t>& newcomers) const;

  // Frees their shared memory, which an exchange of large pieces needs. Newcomers that still ask after it get the rest.
  void Clear();

 private:
  static constexpr std::size_t kKnownMax = 64;
  static constexpr std::size_t kPlacesMax = (std::size_t{256} << 20) / kStatePieceBytes;  // of all sources together

  struct Known {
    std::uint64_t newcomer = 0;
    int tries = 0;
  };

  // Returns the places of the next source: one, and most of those that are left beyond one for each newcomer. The first
  // gets 7. REQUIRES: fewer sources than kNewcomersMax.
  std::size_t NextPlaces() const;
  const Known* Find(std::uint64_t newcomer) const;
  Known& Remember(std::uint64_t newcomer);
  // Returns whether the newcomer has no source and may get one.
  bool IsNext(std::uint64_t newcomer) const;
  void Begin(std::uint64_t newcomer, const JoinOptions& options, const std::string& group, const StateBytes& state);

  std::deque<Known> known_;  // the newest newcomers that were served
  std::vector<std::unique_ptr<Source>> sources_;
  std::size_t turn_ = 0;
  std::optional<Source::Clock::time_point> last_;  // the end of the last boundary
};

}  // namespace ringway::internal
