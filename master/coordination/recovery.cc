#include "master/coordination/recovery.h"

#include <algorithm>
#include <utility>

#include "master/coordination/hung.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

// Others of the view, each once, whatever the report names.
std::set<PeerId> SuspectsOf(const control::Report& report, const std::set<PeerId>& in_view) {
  std::set<PeerId> suspects;
  for (const std::uint64_t suspected : report.suspected()) {
    if (suspected != report.peer() && in_view.contains(PeerId(suspected))) suspects.emplace(suspected);
  }
  return suspects;
}

// Used where rules are counted only.
[[maybe_unused]] bool IsAnyAccused(const GroupPeers& peers, const std::set<PeerId>& some) {
  return std::any_of(some.begin(), some.end(), [&](PeerId peer) { return peers.IsAccused(peer); });
}

}  // namespace

Recovery::Recovery(const GroupPeers& peers, const ViewChain& views, const GroupOptions& options, TimePoint now)
    : peers_(peers),
      views_(views),
      options_(options),
      stop_(views.Newest().epoch()),
      since_(now),
      asked_(InAnyView()),
      weighed_since_(now) {
  NoteHearing(now);
}

bool Recovery::IsAskedFor(const control::Report& report, const control::View& current) {
  if (report.stop() >= current.epoch()) return true;
  bool asks = false;
  bool blames = report.messages().hung_size() > 0;
  for (const control::OpReport& op : report.ops()) {
    asks = asks || op.cancel() || !op.mismatch().empty() || !op.overdue().empty() || !op.partner_lost().empty();
    blames = blames || op.hung_for_size() > 0;
  }
  return asks || (blames && current.hung_ms() > 0 && report.epoch() >= current.epoch());  // else it was judged before
}

void Recovery::Take(const control::Report& report, bool accuses, TimePoint now) {
  if (accuses && now - since_ >= options_.weigh) weighed_since_ = now;
  if (accuses) accused_at_ = now;
  if (Epoch(report.stop()) < stop_ && !RINGWAY_MUTANT(kDecideOnOldReports)) return;
  control::Report& kept = reports_[PeerId(report.peer())] = report;
  kept.clear_suspected();
  for (const PeerId suspect : SuspectsOf(report, InAnyView())) kept.add_suspected(suspect.value);
}

void Recovery::OnReturn(PeerId peer, TimePoint now) {
  if (!peers_.IsAccused(peer) || !returned_.insert(peer).second) return;
  RINGWAY_REACHED(kAccusedReturns);
  weighed_since_ = now;  // wait for its report
}

void Recovery::NoteHearing(TimePoint now) {
  const std::set<PeerId> all = InAnyView();
  const bool hears = std::any_of(all.begin(), all.end(), [&](PeerId id) { return peers_.IsOnline(id); });
  if (!hears) {
    hears_since_.reset();
  } else if (!hears_since_) {
    hears_since_ = now;
  }
}

const control::View& Recovery::InForce() const {
  Epoch adopted(views_.current().epoch());
  for (const auto& [peer, report] : reports_) adopted = std::max(adopted, AdoptedBy(report));
  return views_.At(adopted);
}

// Members whose only fault is their silence. One that is accused and whose host has closed its connection is dead: two
// independent witnesses.
std::set<PeerId> Recovery::Unheard() const {
  std::set<PeerId> unheard = MembersOf(InForce());
  std::erase_if(unheard, [&](PeerId id) {
    if (!peers_.contains(id) || reports_.contains(id)) return true;
    const bool dead = peers_.at(id).contact == Contact::kClosed && peers_.IsAccused(id);
    RINGWAY_REACHED_IF(dead, kAccusedIsGone);
    return dead || peers_.IsGoing(id);
  });
  return unheard;
}

// Counts members that have reported but are no longer heard, too.
bool Recovery::AreMostUnheard() const {
  std::set<PeerId> unheard = Unheard();
  const control::View& view = InForce();
  for (const PeerId id : MembersOf(view)) {
    if (peers_.IsOffline(id) && !peers_.IsAccused(id)) unheard.insert(id);
  }
  return 2 * unheard.size() > static_cast<std::size_t>(view.members_size());
}

// If most were unheard until a moment ago, the others are probably about to reconnect: the short timeout starts then.
bool Recovery::HasWaitedFor(PeerId id, TimePoint now) const {
  if (!hears_since_) return false;
  const TimePoint asked = std::max({since_, peers_.at(id).since, *hears_since_});
  Duration few = std::chrono::milliseconds(InForce().plan().detect_ms()) + options_.back;
  if (RINGWAY_MUTANT(kHasteWithFew)) few = Duration();
  const Duration grace = std::max(options_.grace, few);
  if (RINGWAY_MUTANT(kNoGrace)) return now - asked >= few;
  return now - asked >= grace || now - std::max(asked, most_unheard_) >= few;
}

// Members that are gone without an accusation: leavers, replaced and expelled ones, and those that did not report in
// time.
std::set<PeerId> Recovery::Certain(TimePoint now) const {
  std::set<PeerId> certain = peers_.Going();
  for (const PeerId id : views_.AllMembers()) {
    if (!peers_.contains(id)) certain.insert(id);
  }
  for (const PeerId id : asked_) {
    const bool silent = peers_.contains(id) && (!reports_.contains(id) || IsGoneSince(id));
    RINGWAY_REACHED_IF(silent && HasWaitedFor(id, now), kDropAwaited);
    if (silent && HasWaitedFor(id, now)) certain.insert(id);
  }
  return certain;
}

// It has reported, but is accused and unheard now: it may have died since.
bool Recovery::IsGoneSince(PeerId id) const {
  return peers_.IsOffline(id) && peers_.IsAccused(id) && reports_.contains(id);
}

std::set<PeerId> Recovery::Spoken() const {
  std::set<PeerId> spoken;
  for (const auto& [peer, report] : reports_) spoken.insert(peer);
  return spoken;
}

// After a restart of the master the member may still be reconnecting. Accusations by more than half of the members
// override that.
bool Recovery::IsReturning(PeerId id, const std::set<PeerId>& accusers, TimePoint now) const {
  if (!peers_.IsOffline(id) || now >= peers_.at(id).since) return false;
  return 2 * accusers.size() <= static_cast<std::size_t>(views_.current().members_size());
}

// An accusation alone does not show which of the two is at fault: wait for the accused to report. A late one may be the
// first of several against peers that have died since they reported: then wait for the others.
bool Recovery::AccusedHaveSpoken(TimePoint now) const {
  for (const auto& [accused, accusers] : peers_.accusations()) {
    if (IsReturning(accused, accusers, now)) return false;
  }
  const Accusations& accusations = peers_.accusations();
  const bool are_awaited = std::any_of(accusations.begin(), accusations.end(), [&](const auto& entry) {
    return peers_.IsOnline(entry.first) && !reports_.contains(entry.first);
  });
  RINGWAY_REACHED_IF(!accusations.empty() && !are_awaited, kAccusedReports);
  RINGWAY_REACHED_IF(are_awaited && now - weighed_since_ >= options_.weigh, kAccusedKeepsSilent);
  if (now - weighed_since_ >= options_.weigh) return true;
  return weighed_since_ <= since_ && !are_awaited;
}

// Members whose links to another one are down, or that have not heard it lately, as they last reported.
Accusations Recovery::Suspicions() const {
  Accusations out;
  for (const auto& [peer, report] : reports_) {
    for (const std::uint64_t suspected : report.suspected()) out[PeerId(suspected)].insert(peer);
  }
  return out;
}

// Members that the master hears accuse each other, and what they have said so far does not show who is at fault. Other
// accusations that belong to the same fault are milliseconds away: the dispute is open until none has come for a while.
// It ends, for each accusation is counted once.
bool Recovery::IsDisputed(TimePoint now) const {
  if (RINGWAY_MUTANT(kWeighNothing)) return false;
  const control::View& view = InForce();
  const Duration quiet = std::max<Duration>(options_.weigh, std::chrono::milliseconds(view.plan().detect_ms()) / 10);
  if (now - accused_at_ >= quiet) return false;
  std::set<PeerId> heard = MembersOf(view);
  std::erase_if(heard, [&](PeerId id) { return !peers_.IsOnline(id) || peers_.IsGoing(id); });
  const bool settled = IsSettled({heard, {}, {}, peers_.accusations(), Suspicions()});
  RINGWAY_REACHED_IF(!settled, kDisputeWaits);
  RINGWAY_REACHED_IF(settled && IsAnyAccused(peers_, heard), kDisputeIsSettled);
  return !settled;
}

// The newest view that this member has adopted or holds an UpdateView's outcome for: the current or a prepared one.
Epoch Recovery::AdoptedBy(const control::Report& report) const {
  Epoch adopted(views_.current().epoch());
  if (views_.prepared().contains(Epoch(report.epoch()))) adopted = std::max(adopted, Epoch(report.epoch()));
  for (const control::OpReport& op : report.ops()) {
    const Epoch agreed(op.prepared_epoch());
    const bool holds = op.update_view() && op.stage() != control::OP_STAGE_RUNNING && op.code() == 0;
    if (holds && views_.prepared().contains(agreed)) adopted = std::max(adopted, agreed);
  }
  return adopted;
}

// Members may have adopted a prepared view. Then the next view starts from that one, if a member that knows of it
// stays. Only accusations among members of that base view count, so newcomers have no vote before they are in.
Recovery::Base Recovery::ChooseBase(TimePoint now) const {
  std::set<PeerId> certain = Certain(now);
  for (;;) {                                     // at most once for each prepared view
    std::uint64_t steps_left = kCliqueStepsMax;  // for each search, or a liar could use up those of the last one
    Epoch adopted(views_.current().epoch());
    for (const auto& [peer, report] : reports_) {
      if (!certain.contains(peer)) adopted = std::max(adopted, AdoptedBy(report));
    }
    const bool is_current = adopted == Epoch(views_.current().epoch());
    Base base;
    base.view = views_.At(adopted);
    base.members = MembersOf(base.view);
    base.gone = WhoGoes({base.members, certain, Spoken(), peers_.accusations(), Suspicions()}, steps_left);
    base.steps_left = steps_left;
    base.gone.insert(certain.begin(), certain.end());
    if (is_current) return base;
    RINGWAY_REACHED(kBaseIsPrepared);
    std::set<PeerId> witnesses;
    for (const auto& [peer, report] : reports_) {
      if (AdoptedBy(report) == adopted) witnesses.insert(peer);
    }
    if (!std::includes(base.gone.begin(), base.gone.end(), witnesses.begin(), witnesses.end())) return base;
    RINGWAY_REACHED(kAdoptersGo);
    certain.merge(witnesses);  // members that adopted it cannot stay in a view based on an earlier one
  }
}

// If most are unheard, the master is probably cut off, together with those it hears: then their accusations do not
// count until the others have had time to reconnect.
bool Recovery::MostAreAwaited(TimePoint now) const {
  if (!AreMostUnheard()) return false;
  const std::set<PeerId> unheard = Unheard();
  RINGWAY_REACHED(kAwaitMost);
  return !std::all_of(unheard.begin(), unheard.end(), [&](PeerId id) { return HasWaitedFor(id, now); });
}

// A heard member is not dropped for accusing unheard ones until these have had time to reconnect: they may have died
// since they reported.
bool Recovery::DropsForTheUnheard(const Base& base, TimePoint now) const {
  const std::set<PeerId> certain = Certain(now);
  const Accusations& accusations = peers_.accusations();
  return std::any_of(accusations.begin(), accusations.end(), [&](const auto& entry) {
    const auto& [accused, accusers] = entry;
    if (!IsGoneSince(accused) || certain.contains(accused)) return false;
    return std::any_of(accusers.begin(), accusers.end(), [&](PeerId accuser) {
      return peers_.IsOnline(accuser) && base.gone.contains(accuser) && !certain.contains(accuser);
    });
  });
}

std::optional<Decision> Recovery::Decide(TimePoint now) {
  if (AreMostUnheard()) most_unheard_ = now;
  if (!AccusedHaveSpoken(now) || MostAreAwaited(now) || IsDisputed(now)) return std::nullopt;
  Base base = ChooseBase(now);
  RINGWAY_REACHED_IF(DropsForTheUnheard(base, now), kSpareTheHeard);
  if (DropsForTheUnheard(base, now) && !RINGWAY_MUTANT(kDropForUnheard)) return std::nullopt;
  if (!HaveAllSpoken(base)) return std::nullopt;
  RINGWAY_REACHED_IF(AreMostUnheard(), kThirdWaitsForGrace);
  RINGWAY_REACHED_IF(!AreMostUnheard() && 2 * base.gone.size() > base.members.size(), kThirdStaysAtOnce);
  RINGWAY_REACHED_IF(peers_.accusations().empty() && !Suspicions().empty(), kSuspicionsDropNobody);
  Decision decision;
  decision.hung = WhoHangsIn(base);
  base.gone.insert(decision.hung.begin(), decision.hung.end());
  for (const PeerId peer : base.members) {
    if (base.gone.contains(peer)) {
      decision.lost.insert(peer);
    } else {
      decision.reports[peer] = std::move(reports_[peer]);
    }
  }
  decision.gone = WithTroubledNewcomers(base);
  RINGWAY_REACHED_IF(decision.gone.size() > base.gone.size(), kDropTroubledNewcomer);
  decision.base = std::move(base.view);
  return decision;
}

bool Recovery::HaveAllSpoken(const Base& base) const {
  const auto have_spoken = [&](const std::set<PeerId>& peers) {
    return std::all_of(peers.begin(), peers.end(), [&](PeerId peer) {
      return RINGWAY_MUTANT(kDecideTooEarly) || base.gone.contains(peer) || reports_.contains(peer);
    });
  };
  const std::set<PeerId> current = views_.Members();
  if (!have_spoken(current) || !have_spoken(base.members)) return false;
  // If no member stays, only newcomers can know whether all members have adopted a prepared view.
  const bool none_stays = std::includes(base.gone.begin(), base.gone.end(), current.begin(), current.end());
  return !none_stays || have_spoken(InAnyView());
}

// Only now have all that stay reported what their trainers have submitted. Nobody is evicted together with another
// loss, because that may be what they waited for.
std::set<PeerId> Recovery::WhoHangsIn(const Base& base) const {
  if (views_.current().hung_ms() == 0) return {};  // eviction of hung trainers is disabled
  const auto goes = [&](PeerId peer) { return base.gone.contains(peer); };
  if (std::any_of(base.members.begin(), base.members.end(), goes)) return {};
  std::map<PeerId, control::Report> staying;
  for (const auto& [peer, report] : reports_) {
    if (base.members.contains(peer)) staying[peer] = report;
  }
  return WhoHangs(staying);
}

// All peers to drop: members of the base, and newcomers outside it whose link to a remaining member is broken. A
// newcomer has no state to lose and, if prepared again, would only break the next view.
std::set<PeerId> Recovery::WithTroubledNewcomers(const Base& base) const {
  const std::set<PeerId> all = InAnyView();
  Accusations against;
  for (const auto& [accused, accusers] : peers_.accusations()) {
    for (const PeerId accuser : accusers) {
      if (!base.members.contains(accused)) {
        against[accused].insert(accuser);
      } else if (!base.members.contains(accuser)) {
        against[accuser].insert(accused);
      }
    }
  }
  std::uint64_t steps_left = base.steps_left;
  return WhoGoes({all, base.gone, {}, against}, steps_left);  // members stay, however many newcomers they accuse
}

}  // namespace ringway
