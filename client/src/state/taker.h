// A newcomer's side of a state that travels before it is admitted (state_messages.h).
//
//   StateHeld --> a thread for each of up to kMembersMax members: joins their group of two, asks for pieces
//   all there --> the pieces are compared again, as long as fewer and fewer have changed
//   done, nothing more comes, or the limit (LimitFor) is over --> StateTaken
//
// Members that die, refuse, do not answer or say that the state changes with each step leave their pieces to others, as
// do those whose pieces others have waited for, for 30 s, with nothing to send themselves; what nobody sent is taken
// when the newcomer is admitted, as all of it would be. Pieces are written to the tensors as they come, so that nobody
// waits for that later, and what they replace is kept: it is put back if this rank's own state is wanted, or the join
// fails.
//
// Threads: that of Join, and those that it starts within Take.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

#include "client/src/handshake.h"
#include "client/src/state/state_bytes.h"
#include "client/src/state/state_messages.h"

namespace ringway::internal {

// Pieces of a state before others were written over them. Puts them back when it ends, but not after Drop.
class ReplacedPieces {
 public:
  explicit ReplacedPieces(StateBytes* state) : state_(state) {}
  ~ReplacedPieces() { (void)PutBack(); }
  ReplacedPieces(const ReplacedPieces&) = delete;
  ReplacedPieces& operator=(const ReplacedPieces&) = delete;

  // Writes `content` over the piece.
  Status Replace(std::size_t piece, std::unique_ptr<std::byte[]> content);
  // If it fails, as a device may, the tensors hold a mixture, which is nobody's state.
  [[nodiscard]] Status PutBack() {
    Status written = before_.empty() ? Status() : state_->Write(before_);
    Drop();
    return written;
  }
  void Drop() { before_.clear(); }
  std::size_t bytes() const;

 private:
  StateBytes* const state_;
  Pieces before_;
};

// What a newcomer has before the exchange.
struct TakenState {
  explicit TakenState(StateBytes* state) : replaced(state) {}

  std::vector<Hash> own;    // of its tensors as they were; empty: nothing was taken
  ReplacedPieces replaced;  // of them
  std::vector<Hash> held;   // of its tensors as they are; {}: of one that was written in part
  Status error;             // its tensors could not be put back
};

class Taker {
 public:
  static constexpr std::size_t kMembersMax = 8;

  // Returns how long all of it may take, however slowly pieces come: 10 min, and a second for each MiB.
  static std::chrono::seconds LimitFor(std::size_t bytes);

  // `state` and `options` outlive it. `limit`: of the time from where the pieces are asked for.
  Taker(StateBytes* state, const JoinOptions& options, std::chrono::milliseconds limit)
      : state_(*state), options_(options), limit_(limit), taken_(state) {}

  // Takes what the members send. Reports to options.on_waiting, ends early when options.interrupted says so.
  void Take(const HeldMembership& membership);
  TakenState& taken() { return taken_; }

 private:
  using Clock = std::chrono::steady_clock;
  class Fetcher;
  class Threads;

  // ---- on Join's thread
  Status HashOwn();
  void Stop();
  void TakeInRounds();
  bool AwaitRound(std::unique_lock<std::mutex>* lock);
  std::unique_ptr<Fetcher> MakeFetcher(const HeldMembership& membership, std::uint64_t member);
  void Say(const std::string& text) const;
  void SayHowItEnded();

  // ---- on those of the fetchers
  bool stopped();
  bool leaves_pieces();
  // Returns the next piece to ask for, by a fetcher that waits for so many; nothing if there is none now. With none it
  // waits for one: nothing if all is over.
  std::optional<PieceRequest> NextRequest(std::size_t pending);
  std::size_t PendingMax() const;
  void Return(const std::vector<std::uint64_t>& pieces);
  void OnSame();
  Status OnContent(std::uint64_t piece, std::unique_ptr<std::byte[]> content);
  void OnChanging();
  void OnFetcherOver();
  void Moved();

  StateBytes& state_;
  const JoinOptions& options_;
  const std::chrono::milliseconds limit_;
  TakenState taken_;

  std::mutex mutex_;  // guards all below, and taken_ while fetchers run
  std::condition_variable changed_;
  std::deque<std::uint64_t> wanted_;  // pieces that no fetcher was asked for
  std::size_t asked_ = 0;             // pieces whose answer is due
  std::size_t round_bytes_ = 0;       // received in this round
  std::size_t fetchers_ = 0;          // that are not over
  std::size_t idle_ = 0;              // of these, that wait for a piece to ask for
  bool leaves_pieces_ = false;        // those that are asked for pieces leave them to the idle ones
  bool one_says_changing_ = false;    // a member says that the state changes with each step
  bool is_changing_ = false;          // and no other one sends it
  bool is_late_ = false;              // the limit is over
  bool has_begun_ = false;            // an answer has come
  bool stopped_ = false;
  Clock::time_point moved_at_;
  Clock::time_point ends_at_;
};

}  // namespace ringway::internal
