// The successive memberships of a session.
//
//   member -> ended(code, text), for good
//    ^  |
//    |  v    the daemon went away, or the others evicted this peer: its Link has ended
//   rejoining -> ended
//
// Waiting: an operation's slot is checked before the end of its Link: what the daemon committed before it died is still
// a success.
//
// Rejoining: the thread that notices the end of the membership starts the Rejoiner. Waiting and submitting threads
// block until it is done. A success is reported as kRejoined: by operations of an earlier Link or, instead of
// submitting, by the next submission of each channel and the next UpdateView, except to a thread that already got it
// and on kStateChannel, whose submissions name their peer: a report that none of them takes would reach a later one.
// So no thread's input from before the rejoin is combined with the state taken after it, and a thread with several
// channels takes that state once.
//
// Threads: any. Functions without a Lock take it themselves; they do not look for forks, except Enter and StateError.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringway/ringway.hpp>
#include <set>

#include "client/src/rejoiner.h"
#include "client/src/state_channel.h"
#include "client/src/waiter.h"

namespace ringway::internal {

Status ForkedError();

// Pseudo-channel of UpdateView, which any thread may call.
inline constexpr std::uint32_t kUpdates = abi::kChannelCountMax;
inline std::uint32_t ChannelOf(const abi::OpSpec& spec) {
  return spec.kind == OpKind::kUpdateView ? kUpdates : spec.channel;
}

// The reports of the newest rejoin: which channels have yet to make one, and which threads got one.
class RejoinReports {
 public:
  void Reset() {
    pending_.set();
    pending_.reset(abi::kStateChannel);
    threads_.clear();
  }
  // Returns whether this channel has to report the rejoin to the calling thread. It has no report pending from then on.
  bool Take(std::uint32_t channel);
  // Records that the calling thread got a report.
  void Add();

 private:
  std::bitset<abi::kChannelCountMax + 1> pending_;  // channels (and kUpdates) not used since the rejoin
  std::set<std::uint64_t> threads_;
};

class Memberships {
 public:
  // `rejoined`: gets what the Rejoiner has found, on its thread; calls EndRejoining.
  Memberships(const JoinOptions& options, std::shared_ptr<Link> first, Rejoiner::Done rejoined);

  bool Forked() const;
  const JoinOptions& options() const { return options_; }
  Deadline Within(Milliseconds timeout) const {
    return Deadline(timeout, OnStateChannel::InterruptedOr(&options_.interrupted));
  }
  Waiter& waiter() { return waiter_; }
  Lock Acquire() { return waiter_.Acquire(); }

  // The newest membership.
  const std::shared_ptr<Link>& link(const Lock& /*lock*/) const { return link_; }
  // Not ok once the session has ended.
  const Status& end(const Lock& /*lock*/) const { return end_; }
  // Returns whether operations of this membership may still get their outcome.
  bool IsOpen(const Lock& /*lock*/, const Link& link) const {
    return link.end.ok() || (rejoining_ && &link == link_.get());
  }
  // Returns whether the session rejoins after a membership that ended with `code`.
  bool MayRejoinAfter(Code code) const;

  // Returns why nothing can be submitted any more.
  Status StateError();
  // Returns the membership for this thread to submit on this channel, or to update the view (kUpdates). Blocks while
  // the session rejoins; kRejoined if that has yet to be reported. REQUIRES: channel <= kUpdates.
  Result<std::shared_ptr<Link>> Enter(std::uint32_t channel, const Deadline& deadline);

  // Returns the error of operations whose membership is not open: the session's end, or kRejoined.
  Status Loss(const Lock& lock) const;
  // Returns the error, which the calling thread gets: kRejoined then counts as reported to it.
  Status Report(const Lock& lock, const Status& error);
  // A submission on this channel has reported the rejoin.
  void MarkReported(const Lock& /*lock*/, std::uint32_t channel) { (void)reports_.Take(channel); }

  // Blocks until `ready()`, which is called under the lock, the end of `link`, the deadline or an interruption.
  Status Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& ready);
  // Handles what the daemon has sent, unless another thread reads it. Detects the daemon's death.
  void Drain(Lock* lock, Link* link);
  void WakeAll(const Lock& lock) { waiter_.WakeAll(lock, *link_); }

  void End(const Lock& lock, Link* link, const Status& why);
  // A send failed with this error: ends the membership, with the daemon's reason if there is one. Does not wait for the
  // rejoin.
  void Lose(Link* link, const Status& error);
  // The same for a submission: returns its error, once the session has rejoined or failed to.
  Status SendFailed(Link* link, const Status& error, const Deadline& deadline);
  // Ends the rejoining, with the next membership or the session's end. Returns whether there is a next one.
  bool EndRejoining(const Lock& lock, Result<std::shared_ptr<Link>> found);

  Status Leave(const Deadline& deadline);
  // Leaves without waiting.
  void Abandon();
  // REQUIRES: no lock is held. No `rejoined` runs from then on.
  void StopRejoiner() { rejoiner_.Stop(); }

 private:
  void Handle(const Lock& lock, Link* link, PacketSocket::Received received, const Packet& packet);
  // Ends the session. REQUIRES: it is rejoining.
  void GiveUpRejoining(Lock* lock);

  const JoinOptions options_;
  const std::uint64_t generation_;
  const Rejoiner::Done rejoined_;
  Waiter waiter_;
  std::shared_ptr<Link> link_;
  bool rejoining_ = false;  // link_ has ended and the Rejoiner looks for the next
  Status lost_;             // why the previous membership ended
  RejoinReports reports_;
  bool leaving_ = false;  // Leave was sent: submissions are refused
  bool left_ = false;     // LeaveReply came
  Status end_;
  Rejoiner rejoiner_;
};

}  // namespace ringway::internal
