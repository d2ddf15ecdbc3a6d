// The collection of reports that leads from a broken view to the next one.
#include <ringway/types.h>

#include <algorithm>

#include "master/coordination/group.h"
#include "master/coordination/hung.h"
#include "master/coordination/verdicts.h"
#include "proto/frame_codec.h"
#include "proto/mutation.h"

namespace ringway {
namespace {

constexpr std::size_t kViewBytesMax = kFrameBytesMax - 1024;  // room for the message around it

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
    accuses = accusations_[accused].insert(peer).second || accuses;
  }
  news = news || accuses;
  if (report.leaving()) news = leaving_.insert(peer).second || news;
  for (const control::OpReport& op : report.ops()) {
    news = news || op.cancel() || !op.mismatch().empty() || !op.overdue().empty();
    const bool blames = op.hung_for_size() > 0 && current_.hung_ms() > 0;
    news = news || (blames && report.epoch() >= current_.epoch());  // else it is judged already
  }
  if (!news) return;  // a late word about a view that is over
  if (!collection_) Collect(now);
  const bool counts = Epoch(report.stop()) >= collection_->stop || RINGWAY_MUTANT(kDecideOnOldReports);
  if (accuses && now - collection_->since >= options_.weigh) collection_->weighed_since = now;
  if (counts) collection_->reports[peer] = report;
  Advance(now);
}

void Group::Collect(TimePoint now) {
  taking_back_.reset();  // the next view does that
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

// Members that nothing but their silence speaks against. An accused one whose host has ended its connection is dead by
// two witnesses.
std::set<PeerId> Group::Unheard() const {
  std::set<PeerId> unheard = MembersOf(InForce());
  std::erase_if(unheard, [&](PeerId id) {
    const auto found = peers_.find(id);
    if (found == peers_.end() || collection_->reports.contains(id)) return true;
    const bool dead = found->second.contact == Contact::kClosed && accusations_.contains(id);
    return dead || leaving_.contains(id) || replaced_.contains(id) || expelled_.contains(id);
  });
  return unheard;
}

// Who has reported and is not heard any more counts, too.
bool Group::AreMostUnheard() const {
  std::set<PeerId> unheard = Unheard();
  const control::View& view = InForce();
  for (const PeerId id : MembersOf(view)) {
    const auto found = peers_.find(id);
    if (found != peers_.end() && !found->second.online() && !accusations_.contains(id)) unheard.insert(id);
  }
  return 2 * unheard.size() > static_cast<std::size_t>(view.members_size());
}

// Where most were unheard until a moment ago, the others are about to be back as well: a few have their time from then
// on.
bool Group::HasWaitedFor(PeerId id, TimePoint now) const {
  if (!collection_->hears_since) return false;
  const TimePoint asked = std::max({collection_->since, peers_.at(id).since, *collection_->hears_since});
  Duration few = std::chrono::milliseconds(InForce().plan().detect_ms()) + options_.back;
  if (RINGWAY_MUTANT(kHasteWithFew)) few = Duration();
  const Duration grace = std::max(options_.grace, few);
  if (RINGWAY_MUTANT(kNoGrace)) return now - asked >= few;
  return now - asked >= grace || now - std::max(asked, collection_->most_unheard) >= few;
}

// Those who are gone whatever others say: leavers, who was replaced, and who has been asked in vain for too long.
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
    if (silent && HasWaitedFor(id, now)) certain.insert(id);
  }
  return certain;
}

// It has spoken, and is accused and unheard now: its report may have been its last word.
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

// After a restart of the master: it is still on its way back, as far as anybody knows. The word of more than half of
// the members that it is dead is enough.
bool Group::IsReturning(PeerId id, const std::set<PeerId>& accusers, TimePoint now) const {
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second.online() || now >= found->second.since) return false;
  return 2 * accusers.size() <= static_cast<std::size_t>(current_.members_size());
}

// An accusation alone does not say who of the two is to go: the accused are heard. One that comes late may be the first
// of several against peers that have died since they were heard: then only time helps.
bool Group::AccusedHaveSpoken(TimePoint now) const {
  for (const auto& [accused, accusers] : accusations_) {
    if (IsReturning(accused, accusers, now)) return false;
  }
  if (now - collection_->weighed_since >= options_.weigh) return true;
  if (collection_->weighed_since > collection_->since) return false;
  return std::all_of(accusations_.begin(), accusations_.end(), [&](const auto& entry) {
    const auto found = peers_.find(entry.first);
    return found == peers_.end() || !found->second.online() || collection_->reports.contains(entry.first);
  });
}

// The newest view that this member has switched to or holds an UpdateView's outcome for: the current one or a prepared
// one.
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

// Members may have switched to a prepared view by themselves. Then the next view starts from that one, if one of those
// who know of the switch stays; accusations count among the members of the view that is started from only, so newcomers
// weigh nothing before they are in.
Group::Base Group::ChooseBase(TimePoint now) const {
  std::set<PeerId> certain = Certain(now);
  for (;;) {
    Epoch adopted(current_.epoch());
    for (const auto& [peer, report] : collection_->reports) {
      if (!certain.contains(peer)) adopted = std::max(adopted, AdoptedBy(report));
    }
    const bool is_current = adopted == Epoch(current_.epoch());
    Base base;
    base.view = is_current ? current_ : prepared_.at(adopted);
    base.members = MembersOf(base.view);
    base.gone = WhoGoes({base.members, certain, Spoken(), accusations_});
    base.gone.insert(certain.begin(), certain.end());
    if (is_current) return base;
    std::set<PeerId> witnesses;
    for (const auto& [peer, report] : collection_->reports) {
      if (AdoptedBy(report) == adopted) witnesses.insert(peer);
    }
    if (!std::includes(base.gone.begin(), base.gone.end(), witnesses.begin(), witnesses.end())) return base;
    certain.merge(witnesses);  // who switched cannot stay in a view that starts from before the switch
  }
}

// Where most are unheard, it is likely to be the master that is cut off, with those it hears: then an accusation by
// these is no reason either, before the others had their time.
bool Group::MostAreAwaited(TimePoint now) const {
  if (!AreMostUnheard()) return false;
  const std::set<PeerId> unheard = Unheard();
  return !std::all_of(unheard.begin(), unheard.end(), [&](PeerId id) { return HasWaitedFor(id, now); });
}

// Nobody who is heard goes for missing those who are not, before these had their time: they may have died since they
// spoke.
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
  if (!AccusedHaveSpoken(now) || MostAreAwaited(now)) return;
  Base base = ChooseBase(now);
  if (DropsForTheUnheard(base, now) && !RINGWAY_MUTANT(kDropForUnheard)) return;
  const auto has_spoken = [&](PeerId peer) {
    return RINGWAY_MUTANT(kDecideTooEarly) || base.gone.contains(peer) || collection_->reports.contains(peer);
  };
  const std::set<PeerId> current = Members();
  if (!std::all_of(current.begin(), current.end(), has_spoken)) return;
  if (!std::all_of(base.members.begin(), base.members.end(), has_spoken)) return;
  // Where none of them stays, only newcomers can know whether they have all switched to a prepared view.
  const std::set<PeerId> all = InAnyView();
  const bool none_stays = std::includes(base.gone.begin(), base.gone.end(), current.begin(), current.end());
  if (none_stays && !std::all_of(all.begin(), all.end(), has_spoken)) return;
  AddHung(&base);
  Decide(base, now);
}

// Only now: all who stay have said what their trainers have submitted. Not with somebody else's end, which may be what
// they waited for.
void Group::AddHung(Base* base) {
  if (current_.hung_ms() == 0) return;  // nobody may be blamed for waiting
  const auto goes = [&](PeerId peer) { return base->gone.contains(peer); };
  if (std::any_of(base->members.begin(), base->members.end(), goes)) return;
  std::map<PeerId, control::Report> staying;
  for (const auto& [peer, report] : collection_->reports) {
    if (base->members.contains(peer)) staying[peer] = report;
  }
  for (const PeerId peer : WhoHangs(staying)) {
    base->gone.insert(peer);
    expelled_[peer] = "its trainer has submitted nothing for long while operations of the others waited for it";
  }
}

// Everybody to drop: the base's own, and newcomers outside it whose link to a remaining member is broken. A newcomer
// has nothing to lose and, prepared anew, would only break the group again.
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
  return WhoGoes({all, base.gone, {}, against});  // not by discord: members stay, however many newcomers they miss
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
  EndViews();
  if (!remaining.empty()) {
    current_ = MakeView(remaining, base.view);
    AddVerdicts(base, reports);
    if (current_.ByteSizeLong() > kViewBytesMax) {  // no honest daemon reports that much
      current_.Clear();
      for (const PeerId peer : remaining) expelled_[peer] = "the reports of its group were too large";
      gone.merge(remaining);
    }
  }
  if (paths_.knows_rates()) AddNews(now);  // the ring was kept, for haste
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
  // Of those who say so perhaps nobody stays: then another newcomer may have begun there. Or one was stopped before it
  // could install the view that told it: the channels have not gone on without it, for what was decided since is still
  // reported as long as it has not acknowledged it.
  for (const auto& [peer, report] : reports) {
    if (current_.next_seq().empty() && report.epoch() == base.view.epoch()) {
      *current_.mutable_next_seq() = report.began();
    }
  }
  if (current_.next_seq().empty()) *current_.mutable_next_seq() = base.view.next_seq();
}

}  // namespace ringway
