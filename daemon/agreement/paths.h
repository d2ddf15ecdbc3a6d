// Measures the bandwidth of the paths to the other peers, from the traffic, and from probes while nothing else is to be
// sent. Results go to the master, which plans with them.
//
//   samples of traffic --> prober --turn--> probe frames --ended--> reports
//   bandwidths, round trips, rates from before ---------------------> reports --> master
//   a view is prepared, or one may follow a loss --> warmer --> dummy frames over those of its paths that are cold
//
// Ownership: the Peer's. Only its owner knows whether anything else is to be sent (`may_probe`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/path_reports.h"
#include "daemon/flow/prober.h"
#include "daemon/flow/traffic.h"
#include "daemon/flow/warmer.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::agreement {

class Paths {
 public:
  // Both outlive it.
  Paths(Context& ctx, Links& links);
  Paths(const Paths&) = delete;
  Paths& operator=(const Paths&) = delete;

  // Its pair has come to stand: so many bytes may be spent on a probe. The master has heard of it before: nobody is
  // admitted later for a probe.
  void OnStanding(PeerId other, const LinkTerms& terms);
  void Forget(PeerId other);
  // Returns whether they have delivered anything between members of the view in force; over a path that is warmed,
  // dummy frames may be all that moves.
  [[nodiscard]] bool OnSamples(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink);
  // The master may have missed a report.
  void Repeat();

  void OnProbe(PeerId from, const control::Probe& probe);
  // A view that may be adopted: its paths are warmed until one is installed.
  void OnPrepared(const View& next);
  void Tick(bool may_probe);
  // An operation is in flight here, or a path is warmed: nobody is probed from this host, nor it by others.
  void OnWork() { book_->OnWork(ctx_.now); }
  // No peer of this host has had one in flight for a moment.
  bool IsHostQuiet() const { return book_->IsQuiet(ctx_.now); }
  // Returns whether dummy frames are to be sent, to probe or warm a path.
  bool has_dummies() const { return !prober_.turn().empty() || warmer_.warming(); }
  // Adds those whom they may be sent to now. `may_probe`: nothing else is to be sent, which only probes require.
  void AddTargets(bool may_probe, std::vector<PeerId>& out) const;
  bool NextDummy(const LinkId& lane, std::uint32_t payload_bytes_max, bool may_probe, Outbound& out);
  // Makes an empty frame, which the other side skips; returns false if the lane is down.
  bool EmptyFrame(const LinkId& lane, Outbound& out);

 private:
  // `is_news`: not said before.
  void Report(bool is_news = true);
  // Reports the operator's limit as the rate of the uplink, whatever was or will be measured.
  void SayAllowed();
  double AtMostAllowed(double rate) const;
  void Report(std::optional<PeerId> other, double rate, Duration round_trip);
  void SendProbeMessages();
  void Encode(const LinkId& lane, std::uint32_t bytes, Outbound& out);
  // On its rings, as far as there are any: two_rings goes both ways.
  struct Neighbours {
    std::set<PeerId> before;
    std::set<PeerId> after;
    std::set<PeerId> beyond;  // successors, if the one before them is lost
  };
  Neighbours NeighboursOnRings(const View& view) const;
  // Those that its large operations go to: first its successors on the rings.
  std::vector<PeerId> UsedBy(const View& view, const Neighbours& neighbours) const;
  // A recovery installs its view at once, on the rings of the one before without those that are lost.
  void WarmForLosses();

  Context& ctx_;
  Links& links_;
  std::shared_ptr<flow::ProbeBook> book_;
  PathReports reports_;
  flow::Prober prober_;
  flow::Warmer warmer_;
  Epoch warmed_in_;       // the view in force when warming began
  TimePoint standby_at_;  // when it may begin for the losses of this view
  bool is_standby_due_ = false;
  double said_allowed_ = 0;
  Epoch rings_of_;  // the view whose rings the prober knows
};

}  // namespace ringway::agreement
