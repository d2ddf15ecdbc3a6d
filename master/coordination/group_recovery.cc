// The collection of reports that leads from a broken view to the next one.
#include <ringway/types.h>

#include <algorithm>

#include "master/coordination/group.h"
#include "master/coordination/hung.h"
#include "master/coordination/verdicts.h"
#include "proto/frame_codec.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

constexpr std::size_t kViewBytesMax = kFrameBytesMax - 1024;  // room for the enclosing message

// Others of the view, each once, whatever the report names.
std::set<PeerId> SuspectsOf(const control::Report& report, const std::set<PeerId>& in_view) {
  std::set<PeerId> suspects;
  for (const std::uint64_t suspected : report.suspected()) {
    if (suspected != report.peer() && in_view.contains(PeerId(suspected))) suspects.emplace(suspected);
  }
  return suspects;
}

}  // namespace

void Group::OnReport(const control::Report& report, TimePoint now) {
  const PeerId peer(report.peer());
  const std::set<PeerId> in_view = InAnyView();
  if (!in_view.contains(peer)) return;
  bool news = report.stop() >= current_.epoch();
  bool accuses = false;
  for (const std::uint64_t lost : report.lost()) {
    const PeerId accused(lost);
    if (accused == peer || !in_view.contains(accused)) continue;
    if (RINGWAY_MUTANT(kForgetOldLosses) && report.epoch() != current_.epoch()) continue;
    RINGWAY_REACHED_IF(accusations_.contains(peer), kAccusedAccuses);
    accuses = accusations_[accused].insert(peer).second || accuses;
  }
  news = news || accuses;
  RINGWAY_REACHED_IF(report.leaving(), kLeaverGoes);
  if (report.leaving()) news = leaving_.insert(peer).second || news;
  bool blames = report.messages().hung_size() > 0;
  for (const control::OpReport& op : report.ops()) {
    news = news || op.cancel() || !op.mismatch().empty() || !op.overdue().empty() || !op.partner_lost().empty();
    blames = blames || op.hung_for_size() > 0;
  }
  news = news || (blames && current_.hung_ms() > 0 && report.epoch() >= current_.epoch());  // else it was judged before
  RINGWAY_REACHED_IF(!news, kSkipStaleReport);
  if (!news) return;  // a stale report about an earlier view
  RINGWAY_REACHED(kTakeReport);
  if (!collection_) Collect(now);
  const bool counts = Epoch(report.stop()) >= collection_->stop || RINGWAY_MUTANT(kDecideOnOldReports);
  if (accuses && now - collection_->since >= options_.weigh) collection_->weighed_since = now;
  if (accuses) collection_->accused_at = now;
  if (counts) {
    control::Report& kept = collection_->reports[peer] = report;
    kept.clear_suspected();
    for (const PeerId suspect : SuspectsOf(report, in_view)) kept.add_suspected(suspect.value);
  }
  Advance(now);
}

void Group::Collect(TimePoint now) {
  revoking_.reset();  // superseded by the next view
  const Epoch newest = prepared_.empty() ? Epoch(current_.epoch()) : prepared_.rbegin()->first;
  collection_ = Collection{
      .stop = newest, .since = now, .weighed_since = now, .reports = {}, .told = InAnyView(), .hears_since = {}};
  NoteHearing(now);
  for (const PeerId peer : collection_->told) SendAbort(peer);
}

void Group::SendAbort(PeerId id) {
  if (RINGWAY_MUTANT(kNoAbortFromMaster)) return;
  control::FromMaster message;
  message.mutable_abort()->set_peer(id.value);
  message.mutable_abort()->set_epoch(collection_->stop.value);
  SendTo(id, std::move(message));
}

const control::View& Group::InForce() const {
  Epoch adopted(current_.epoch());
  for (const auto& [peer, report] : collection_->reports) adopted = std::max(adopted, AdoptedBy(report));
  return adopted == Epoch(current_.epoch()) ? current_ : prepared_.at(adopted);
}

// Members whose only fault is their silence. One that is accused and whose host has closed its connection is dead: two
// independent witnesses.
std::set<PeerId> Group::Unheard() const {
  std::set<PeerId> unheard = MembersOf(InForce());
  std::erase_if(unheard, [&](PeerId id) {
    const auto found = peers_.find(id);
    if (found == peers_.end() || collection_->reports.contains(id)) return true;
    const bool dead = found->second.contact == Contact::kClosed && accusations_.contains(id);
    RINGWAY_REACHED_IF(dead, kAccusedIsGone);
    return dead || leaving_.contains(id) || replaced_.contains(id) || expelled_.contains(id);
  });
  return unheard;
}

// Counts members that have reported but are no longer heard, too.
bool Group::AreMostUnheard() const {
  std::set<PeerId> unheard = Unheard();
  const control::View& view = InForce();
  for (const PeerId id : MembersOf(view)) {
    const auto found = peers_.find(id);
    if (found != peers_.end() && !found->second.online() && !accusations_.contains(id)) unheard.insert(id);
  }
  return 2 * unheard.size() > static_cast<std::size_t>(view.members_size());
}

// If most were unheard until a moment ago, the others are probably about to reconnect: the short timeout starts then.
bool Group::HasWaitedFor(PeerId id, TimePoint now) const {
  if (!collection_->hears_since) return false;
  const TimePoint asked = std::max({collection_->since, peers_.at(id).since, *collection_->hears_since});
  Duration few = std::chrono::milliseconds(InForce().plan().detect_ms()) + options_.back;
  if (RINGWAY_MUTANT(kHasteWithFew)) few = Duration();
  const Duration grace = std::max(options_.grace, few);
  if (RINGWAY_MUTANT(kNoGrace)) return now - asked >= few;
  return now - asked >= grace || now - std::max(asked, collection_->most_unheard) >= few;
}

// Members that are gone without an accusation: leavers, replaced and expelled ones, and those that did not report in
// time.
std::set<PeerId> Group::Certain(TimePoint now) const {
  std::set<PeerId> certain = leaving_;
  certain.insert(replaced_.begin(), replaced_.end());
  for (const auto& [peer, why] : expelled_) certain.insert(peer);
  const auto add_unknown = [&](const control::View& view) {
    for (const PeerId id : MembersOf(view)) {
      if (!peers_.contains(id)) certain.insert(id);
    }
  };
  add_unknown(current_);
  for (const auto& [epoch, view] : prepared_) add_unknown(view);
  for (const PeerId id : collection_->told) {
    const bool silent = peers_.contains(id) && (!collection_->reports.contains(id) || IsGoneSince(id));
    RINGWAY_REACHED_IF(silent && HasWaitedFor(id, now), kDropAwaited);
    if (silent && HasWaitedFor(id, now)) certain.insert(id);
  }
  return certain;
}

// It has reported, but is accused and unheard now: it may have died since.
bool Group::IsGoneSince(PeerId id) const {
  const auto found = peers_.find(id);
  return found != peers_.end() && !found->second.online() && accusations_.contains(id) &&
         collection_->reports.contains(id);
}

std::set<PeerId> Group::Spoken() const {
  std::set<PeerId> spoken;
  for (const auto& [peer, report] : collection_->reports) spoken.insert(peer);
  return spoken;
}

// After a restart of the master the member may still be reconnecting. Accusations by more than half of the members
// override that.
bool Group::IsReturning(PeerId id, const std::set<PeerId>& accusers, TimePoint now) const {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.online() || now >= found->second.since) return false;
  return 2 * accusers.size() <= static_cast<std::size_t>(current_.members_size());
}

// An accusation alone does not tell which of the two is at fault: wait for the accused to report. A late one may be the
// first of several against peers that have died since they reported: then wait for the others.
bool Group::AccusedHaveSpoken(TimePoint now) const {
  for (const auto& [accused, accusers] : accusations_) {
    if (IsReturning(accused, accusers, now)) return false;
  }
  const bool are_awaited = std::any_of(accusations_.begin(), accusations_.end(), [&](const auto& entry) {
    const auto found = peers_.find(entry.first);
    return found != peers_.end() && found->second.online() && !collection_->reports.contains(entry.first);
  });
  RINGWAY_REACHED_IF(!accusations_.empty() && !are_awaited, kAccusedReports);
  RINGWAY_REACHED_IF(are_awaited && now - collection_->weighed_since >= options_.weigh, kAccusedKeepsSilent);
  if (now - collection_->weighed_since >= options_.weigh) return true;
  return collection_->weighed_since <= collection_->since && !are_awaited;
}

// Members whose links to another one are down, or that have not heard it lately, as they last reported.
Accusations Group::Suspicions() const {
  Accusations out;
  for (const auto& [peer, report] : collection_->reports) {
    for (const std::uint64_t suspected : report.suspected()) out[PeerId(suspected)].insert(peer);
  }
  return out;
}

// Members that the master hears accuse each other, and what they have said so far does not tell who is at fault. Other
// accusations that belong to the same fault are milliseconds away: the dispute is open until none has come for a while.
// It ends, for each accusation is counted once.
bool Group::IsDisputed(TimePoint now) const {
  if (RINGWAY_MUTANT(kWeighNothing)) return false;
  const control::View& view = InForce();
  const Duration quiet = std::max<Duration>(options_.weigh, std::chrono::milliseconds(view.plan().detect_ms()) / 10);
  if (now - collection_->accused_at >= quiet) return false;
  std::set<PeerId> heard = MembersOf(view);
  std::erase_if(heard, [&](PeerId id) {
    const auto found = peers_.find(id);
    return found == peers_.end() || !found->second.online() || leaving_.contains(id) || replaced_.contains(id) ||
           expelled_.contains(id);
  });
  const bool settled = IsSettled({heard, {}, {}, accusations_, Suspicions()});
  RINGWAY_REACHED_IF(!settled, kDisputeWaits);
  RINGWAY_REACHED_IF(settled && AreAccused(heard), kDisputeIsSettled);
  return !settled;
}

bool Group::AreAccused(const std::set<PeerId>& peers) const {
  return std::any_of(peers.begin(), peers.end(), [this](PeerId peer) { return accusations_.contains(peer); });
}

// The newest view that this member has adopted or holds an UpdateView's outcome for: the current or a prepared one.
Epoch Group::AdoptedBy(const control::Report& report) const {
  Epoch adopted(current_.epoch());
  if (prepared_.contains(Epoch(report.epoch()))) adopted = std::max(adopted, Epoch(report.epoch()));
  for (const control::OpReport& op : report.ops()) {
    const Epoch agreed(op.prepared_epoch());
    const bool holds = op.update_view() && op.stage() != control::OP_STAGE_RUNNING && op.code() == 0;
    if (holds && prepared_.contains(agreed)) adopted = std::max(adopted, agreed);
  }
  return adopted;
}

// Members may have adopted a prepared view. Then the next view starts from that one, if a member that knows of it
// stays. Only accusations among members of that base view count, so newcomers have no vote before they are in.
Group::Base Group::ChooseBase(TimePoint now) const {
  std::set<PeerId> certain = Certain(now);
  for (
      ;
      ;) {  // at most once for each prepared view; each search with steps of its own, or a liar could use up the last one's
    std::uint64_t steps_left = kCliqueStepsMax;
    Epoch adopted(current_.epoch());
    for (const auto& [peer, report] : collection_->reports) {
      if (!certain.contains(peer)) adopted = std::max(adopted, AdoptedBy(report));
    }
    const bool is_current = adopted == Epoch(current_.epoch());
    Base base;
    base.view = is_current ? current_ : prepared_.at(adopted);
    base.members = MembersOf(base.view);
    base.gone = WhoGoes({base.members, certain, Spoken(), accusations_, Suspicions()}, steps_left);
    base.steps_left = steps_left;
    base.gone.insert(certain.begin(), certain.end());
    if (is_current) return base;
    RINGWAY_REACHED(kBaseIsPrepared);
    std::set<PeerId> witnesses;
    for (const auto& [peer, report] : collection_->reports) {
      if (AdoptedBy(report) == adopted) witnesses.insert(peer);
    }
    if (!std::includes(base.gone.begin(), base.gone.end(), witnesses.begin(), witnesses.end())) return base;
    RINGWAY_REACHED(kAdoptersGo);
    certain.merge(witnesses);  // members that adopted it cannot stay in a view based on an earlier one
  }
}

// If most are unheard, the master is probably cut off, together with those it hears: then their accusations do not
// count until the others have had time to reconnect.
bool Group::MostAreAwaited(TimePoint now) const {
  if (!AreMostUnheard()) return false;
  const std::set<PeerId> unheard = Unheard();
  RINGWAY_REACHED(kAwaitMost);
  return !std::all_of(unheard.begin(), unheard.end(), [&](PeerId id) { return HasWaitedFor(id, now); });
}

// A heard member is not dropped for accusing unheard ones until these have had time to reconnect: they may have died
// since they reported.
bool Group::DropsForTheUnheard(const Base& base, TimePoint now) const {
  const std::set<PeerId> certain = Certain(now);
  return std::any_of(accusations_.begin(), accusations_.end(), [&](const auto& entry) {
    const auto& [accused, accusers] = entry;
    if (!IsGoneSince(accused) || certain.contains(accused)) return false;
    return std::any_of(accusers.begin(), accusers.end(), [&](PeerId accuser) {
      const auto found = peers_.find(accuser);
      return found != peers_.end() && found->second.online() && base.gone.contains(accuser) &&
             !certain.contains(accuser);
    });
  });
}

void Group::TryDecide(TimePoint now) {
  if (AreMostUnheard()) collection_->most_unheard = now;
  if (!AccusedHaveSpoken(now) || MostAreAwaited(now) || IsDisputed(now)) return;
  Base base = ChooseBase(now);
  RINGWAY_REACHED_IF(DropsForTheUnheard(base, now), kSpareTheHeard);
  if (DropsForTheUnheard(base, now) && !RINGWAY_MUTANT(kDropForUnheard)) return;
  const auto has_spoken = [&](PeerId peer) {
    return RINGWAY_MUTANT(kDecideTooEarly) || base.gone.contains(peer) || collection_->reports.contains(peer);
  };
  const std::set<PeerId> current = Members();
  if (!std::all_of(current.begin(), current.end(), has_spoken)) return;
  if (!std::all_of(base.members.begin(), base.members.end(), has_spoken)) return;
  // If no member stays, only newcomers can know whether all members have adopted a prepared view.
  const std::set<PeerId> all = InAnyView();
  const bool none_stays = std::includes(base.gone.begin(), base.gone.end(), current.begin(), current.end());
  if (none_stays && !std::all_of(all.begin(), all.end(), has_spoken)) return;
  RINGWAY_REACHED_IF(AreMostUnheard(), kThirdWaitsForGrace);
  RINGWAY_REACHED_IF(!AreMostUnheard() && 2 * base.gone.size() > base.members.size(), kThirdStaysAtOnce);
  RINGWAY_REACHED_IF(accusations_.empty() && !Suspicions().empty(), kSuspicionsDropNobody);
  AddHung(&base);
  Decide(base, now);
}

// Only now have all that stay reported what their trainers have submitted. Not together with another loss, which may be
// what they waited for.
void Group::AddHung(Base* base) {
  if (current_.hung_ms() == 0) return;  // eviction of hung trainers is disabled
  const auto goes = [&](PeerId peer) { return base->gone.contains(peer); };
  if (std::any_of(base->members.begin(), base->members.end(), goes)) return;
  std::map<PeerId, control::Report> staying;
  for (const auto& [peer, report] : collection_->reports) {
    if (base->members.contains(peer)) staying[peer] = report;
  }
  for (const PeerId peer : WhoHangs(staying)) {
    RINGWAY_REACHED(kEvictHung);
    base->gone.insert(peer);
    expelled_[peer] = "its trainer has submitted nothing for " + std::to_string(current_.hung_ms()) +
                      " ms (evict_hung_after) while operations of the others waited for it";
  }
}

// All peers to drop: members of the base, and newcomers outside it whose link to a remaining member is broken. A
// newcomer has no state to lose and, if prepared again, would only break the next view.
std::set<PeerId> Group::WithTroubledNewcomers(const Base& base) const {
  const std::set<PeerId> all = InAnyView();
  Accusations against;
  for (const auto& [accused, accusers] : accusations_) {
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

void Group::Decide(const Base& base, TimePoint now) {
  std::map<PeerId, control::Report> reports;
  std::set<PeerId> remaining;
  for (const PeerId peer : base.members) {
    if (base.gone.contains(peer)) continue;
    remaining.insert(peer);
    reports[peer] = std::move(collection_->reports[peer]);
  }
  std::set<PeerId> gone = WithTroubledNewcomers(base);
  RINGWAY_REACHED_IF(gone.size() > base.gone.size(), kDropTroubledNewcomer);
  EndViews();
  if (!remaining.empty()) {
    current_ = MakeView(remaining, base.view);
    AddVerdicts(base, reports);
    if (current_.ByteSizeLong() > kViewBytesMax) {  // no correct daemon reports that much
      current_.Clear();
      for (const PeerId peer : remaining) expelled_[peer] = "the reports of its group were too large";
      gone.merge(remaining);
    }
  }
  if (paths_.knows_rates()) AddNews(now);  // the recovery kept the ring: plan again later
  host_.Changed(*this);
  SendViewToMembers(current_, false);
  Drop(gone, now);
}

void Group::AddVerdicts(const Base& base, const std::map<PeerId, control::Report>& reports) {
  VerdictOptions options;
  std::string lost;
  for (const PeerId peer : base.members) {
    if (!base.gone.contains(peer) || leaving_.contains(peer) || !peers_.contains(peer)) continue;
    lost += (lost.empty() ? "" : ", ") + Label(peer);
  }
  if (fail_on_peer_loss_ && !lost.empty()) options.peer_lost = {Code::kPeerLost, "lost " + lost};
  const auto world = static_cast<std::uint32_t>(current_.members_size());
  if (world < current_.min_world()) {
    options.too_small = {Code::kWorldTooSmall, "the group has " + std::to_string(world) + " peers and needs " +
                                                   std::to_string(current_.min_world()) +
                                                   ": call UpdateView, which lets in who waits, until it has them"};
  }
  for (control::Verdict& verdict : DecideVerdicts(reports, options)) {
    if (CodeFromWire(verdict.code()) == Code::kInternal) host_.CountContradiction();
    *current_.add_verdicts() = std::move(verdict);
  }
  // Newcomers start where the UpdateView that adopted them left the channels: the one with the newest prepared view.
  Epoch newest;
  for (const auto& [peer, report] : reports) {
    for (const control::OpReport& op : report.ops()) {
      if (!op.update_view() || op.stage() == control::OP_STAGE_RUNNING || op.code() != 0) continue;
      if (op.next_seq().empty() || Epoch(op.prepared_epoch()) < newest) continue;
      newest = Epoch(op.prepared_epoch());
      *current_.mutable_next_seq() = op.next_seq();
    }
  }
  // If none of them stays, another newcomer may have begun there. Or a newcomer was frozen before it could install the
  // view that says so: the channels have not advanced without it, for outcomes are reported until it acknowledges them.
  for (const auto& [peer, report] : reports) {
    if (current_.next_seq().empty() && report.epoch() == base.view.epoch()) {
      *current_.mutable_next_seq() = report.began();
    }
  }
  if (current_.next_seq().empty()) *current_.mutable_next_seq() = base.view.next_seq();
}

}  // namespace ringway
