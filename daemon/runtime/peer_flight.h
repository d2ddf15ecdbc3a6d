// Tells the flight recorder what a PeerRuntime sees pass: submissions, segments, messages, outcomes. Whoever has no
// recorder pays a branch for each.
//
// Threads: the runtime's. Allocates for a lane's first segment only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "daemon/agreement/peer_values.h"
#include "daemon/agreement/view.h"
#include "daemon/runtime/flight_deck.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/segment_header.h"
#include "proto/stream/timer.h"

namespace ringway::daemon {

class PeerFlight {
 public:
  // `deck`: null: nothing is recorded. The clock outlives it.
  PeerFlight(std::shared_ptr<FlightDeck> deck, PeerId self, std::string group, const net::Clock& clock)
      : deck_(std::move(deck)), self_(self), group_(std::move(group)), clock_(clock) {}
  ~PeerFlight() {
    if (records()) deck_->recorder().EndSelf(self_);
  }
  PeerFlight(const PeerFlight&) = delete;
  PeerFlight& operator=(const PeerFlight&) = delete;

  bool records() const { return deck_ != nullptr; }
  // When work on so many bytes begins; the epoch of the clock where that is not timed.
  TimePoint Begin(std::size_t bytes) const { return records() && bytes > kUntimedBytes ? clock_.Now() : TimePoint(); }

  // This peer's own name.
  void AddName(const std::string& name) {
    if (records()) deck_->recorder().AddSelf(self_, group_, name);
  }
  void OnView(const agreement::View& view);
  // `seq`: what it got.
  void OnSubmit(const agreement::Submission& submission, std::uint64_t seq, TimePoint now);
  void OnHeader(const links::LinkId& lane, const SegmentHeader& header, const links::Inbound& inbound);
  // The payload of the lane's last header; it was taken between `begin` and now, if that is timed.
  void OnPayload(const links::LinkId& lane, TimePoint begin);
  void OnLaneClosed(const links::LinkId& lane) { incoming_.erase(lane); }
  void OnLinksClosed(PeerId other) {
    std::erase_if(incoming_, [other](const auto& entry) { return entry.first.other == other; });
  }
  void OnSent(PeerId to, const links::Outbound& outbound, TimePoint now);
  // Sums and copies between `begin` and now.
  void OnWork(TimePoint begin);
  void OnMessage(PeerId other, const control::PeerMessage& message, bool is_sent);
  // This peer's report to the master: it says when its view is over.
  void OnReport(const control::Report& report);
  void OnComplete(const agreement::Complete& complete, TimePoint now);
  void OnTick(const agreement::Wait& wait, std::uint64_t ops_stuck);

 private:
  // Sums of so few bytes take less time than it is worth to ask for it.
  static constexpr std::size_t kUntimedBytes = 64 << 10;

  struct Incoming {
    flight::Record part{};
    bool is_open = false;
  };

  flight::Record At(TimePoint now, flight::Kind kind) const;
  flight::Record Now(flight::Kind kind) const { return At(clock_.Now(), kind); }
  void Add(const flight::Record& record) { deck_->recorder().Add(record); }

  std::shared_ptr<FlightDeck> deck_;
  PeerId self_;
  std::string group_;
  const net::Clock& clock_;
  std::map<links::LinkId, Incoming> incoming_;  // by open lane
  Epoch aborted_;                               // the last view that was
  std::set<std::uint64_t> lost_;                // peers whose loss in that view is recorded
  std::string waited_;                          // what the last kWaits said
  std::uint64_t stuck_ = 0;
};

}  // namespace ringway::daemon
