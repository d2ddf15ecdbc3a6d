// Mutation testing: each mutant leaves out one rule of the protocol, to prove that the simulation finds the bug
// (tests/sim).
//
//   if (!RINGWAY_MUTANT(kCompleteWhileFrozen) && frozen()) return;   // the mutant skips this rule
//
// No mutants, because other rules compensate:
//   - counting DONE while frozen: its sender keeps the result and reports it, so it is committed anyway;
//   - finished_upto: what one member has finished all hold, and it resends DONE to a view that names it as lacking;
//   - committing for a dropped member: no member of the view holds the bytes, so the view is aborted, and the next
//     one retries;
//   - deciding a recovery while no member is heard: the grace is the longer wait if most are unheard (the coordinator's
//     unit tests cover the rule);
//   - DONE and READY of an older view: they stay true, for every surviving member reports what it holds.
//
// The macro is constant false, and adds nothing to the programs. The simulation compiles the sources a second time with
// RINGWAY_MUTANTS defined, and selects one. One thread.
#pragma once

#include <cstdint>

// M(name, what happens without the rule)
#define RINGWAY_EACH_MUTANT(M)                                                                        \
  M(kCompleteWhileFrozen, "freeze: a frozen member completes what it runs")                           \
  M(kInstallStoppedView, "promise: a view at or below stop is installed")                             \
  M(kInstallOldView, "promise: a view at or below the own epoch is installed")                        \
  M(kDecideOnOldReports, "tagged reports: decided on reports with a stop below the view")             \
  M(kRetryWhatIsHeld, "who matters: retried although a member holds the outcome")                     \
  M(kDecideTooEarly, "who matters: decided without the reports of all that stay")                     \
  M(kTooSmallAlone, "too small: a rank fails its operations alone, submitted by others or not")       \
  M(kWrongContributors, "who matters: the verdict names the new view's members as contributors")      \
  M(kPossessByVerdict, "commit is not possession: reported as complete while still fetching")         \
  M(kKeepOldVerdict, "commit is not possession: an earlier verdict survives a view that has none")    \
  M(kFetchFromAnybody, "commit is not possession: fetched from the first member, holder or not")      \
  M(kDropAfterVerdict, "retention: a holder drops the bytes when its trainer was told")               \
  M(kTellLargeByVerdict, "retention: a large operation committed by verdict is told before all hold") \
  M(kDropSmall, "retention: a small result is not kept for those who lack it")                        \
  M(kAcceptOldFrames, "epochs: a frame of an older view is taken for the current one")                \
  M(kDropEarlyMessages, "epochs: messages of views to come are dropped")                              \
  M(kDropEarlyFrames, "epochs: frames of views to come are dropped")                                  \
  M(kIgnoreAbortAhead, "epochs: an ABORT above the own view is ignored")                              \
  M(kForgetOldLosses, "losses: one of an older view neither counts nor aborts the view that comes")   \
  M(kPartIsAll, "parts: a rank's own part is told before all have theirs")                            \
  M(kCommitOnePart, "parts: committed because one of those who stay has its part")                    \
  M(kRetryParts, "parts: retried although all who stay have theirs")                                  \
  M(kSkipDone, "finishing: large operations are told before everybody holds them")                    \
  M(kDoneTooEarly, "finishing: DONE is sent when the operation starts")                               \
  M(kAcknowledgeAhead, "finishing: one operation more is acknowledged than is complete")              \
  M(kSendTrainersInput, "finishing: who is told early sends an input that its trainer may overwrite") \
  M(kStampOfOne, "finishing: a result carries one rank's stamp and not the minimum")                  \
  M(kIgnoreMismatch, "finishing: other descriptors are not noticed")                                  \
  M(kTakeTwice, "positions: a segment that comes twice is taken twice")                               \
  M(kForgetLostSegments, "lane repair: what a lost lane carried is not sent again")                   \
  M(kForgetUnseenLanes, "lane repair: what a lane took that its dialler never saw is not sent again") \
  M(kForgetMessages, "control repair: what a broken control link lost is not sent again")             \
  M(kTakeMessagesTwice, "control repair: a message that comes twice is taken twice")                  \
  M(kAccuseControl, "control repair: a control link that breaks accuses its other end")               \
  M(kBlameTheLink, "buffers: a trainer that writes to what is in flight is not told from a bad link") \
  M(kBarkAlone, "watchdog: it asks nobody whether it has submitted, or what moves there")             \
  M(kBlameTheWaiting, "hung trainers: who waits for one is taken for one")                            \
  M(kTrustStaging, "hung trainers: an input that comes no further counts as submitted")               \
  M(kKeepHung, "hung trainers: the master keeps them")                                                \
  M(kForgetRefused, "memory: a segment that found no room is not asked for again")                    \
  M(kKeepPrecision, "determinism: the owner of a quantized chunk keeps its own precision")            \
  M(kUpdateAlone, "UpdateView: the newest view that is prepared here is adopted, agreed or not")      \
  M(kStayOutOfStep, "UpdateView: who submitted less than others before it does not skip the rest")    \
  M(kReportOldUpdate, "UpdateView: who learns of one in a later view reports the one before it")      \
  M(kNewcomerStartsAtOne, "UpdateView: a newcomer numbers its operations from one")                   \
  M(kWindowStopsAll, "eager window: it stops the operation that all wait for")                        \
  M(kActivateAtOnce, "UpdateView: a newcomer switches before the members do")                         \
  M(kReuseEpoch, "master: two views with one epoch")                                                  \
  M(kForgetTerm, "master: a restarted one counts epochs from its first life's")                       \
  M(kTellBeforeRecord, "master: views go out before they are recorded")                               \
  M(kForgetJournal, "master: a restarted one knows no groups")                                        \
  M(kNoAbortFromMaster, "master: it collects without telling the members to stop")                    \
  M(kNoResync, "master: what a broken connection lost is not said again")                             \
  M(kKeepGhosts, "master: it does not tell peers that it dropped them while they were away")          \
  M(kSilenceIsDeath, "master unheard: a member that it does not hear is dropped")                     \
  M(kNoGrace, "master unheard in a recovery: most have no more time than a few")                      \
  M(kHasteWithFew, "master unheard in a recovery: a few have no time to connect again")               \
  M(kDropForUnheard, "master unheard: a lone survivor goes for missing those that died after it")     \
  M(kForgetUnheard, "master unheard: it forgets a group as soon as none is heard")                    \
  M(kKeepReplaced, "master: a daemon that is back as another process has its peers still")            \
  M(kAbortForNewcomer, "newcomers: one that goes away while it is prepared stops the members")        \
  M(kTakeBackUnasked, "newcomers: a prepared view is taken back when one member has said so")         \
  M(kTakeBackAtOnce, "newcomers: one is dropped although an open UpdateView may agree on it")

// The same of what carries the protocol out: the daemon's runtime (tests/sim/runtime_mutants_test.cc).
#define RINGWAY_EACH_RUNTIME_MUTANT(M)                                                      \
  M(kFlushNothing, "links: what is queued on a control link waits for the next event")      \
  M(kAnswerNoOffer, "links: an accepted connection is not told so")                         \
  M(kKeepClosedLane, "links: a lane that has closed is neither dropped nor reported")       \
  M(kForgetDials, "links: the outcome of a dial does not reach the peer that asked for it") \
  M(kDiscardScratch, "frames: a payload that is to be added up is discarded")               \
  M(kKeepFromMaster, "master: what a peer says to the master stays here")

namespace ringway::mutation {

enum class Mutant : std::uint8_t {
  kNone,
#define RINGWAY_NAME_MUTANT(name, rule) name,
  RINGWAY_EACH_MUTANT(RINGWAY_NAME_MUTANT) RINGWAY_EACH_RUNTIME_MUTANT(RINGWAY_NAME_MUTANT)
#undef RINGWAY_NAME_MUTANT
};

#ifdef RINGWAY_MUTANTS
inline Mutant active = Mutant::kNone;
#define RINGWAY_MUTANT(name) (::ringway::mutation::active == ::ringway::mutation::Mutant::name)
#else
#define RINGWAY_MUTANT(name) (static_cast<void>(::ringway::mutation::Mutant::name), false)
#endif

}  // namespace ringway::mutation
