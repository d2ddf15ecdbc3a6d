// Mutation testing: each mutant leaves out one rule of the protocol, to prove that the simulation finds the bug
// (tests/sim).
//
//   if (!RINGWAY_MUTANT(kCompleteWhileFrozen) && frozen()) return;   // the mutant skips this rule
//
// No mutants, because other rules compensate:
//   - counting DONE while frozen: its sender keeps the result and reports it, so it is committed anyway;
//   - finished_upto: all hold what one member has finished, and it resends DONE to a view that names it as lacking;
//   - committing for a dropped member: no member of the view holds the bytes, so the view is aborted, and the next
//     one retries;
//   - deciding a recovery while no member is heard: the grace is the longer wait if most are unheard (the coordinator's
//     unit tests cover the rule);
//   - forgetting what ran unsubmitted in an older view: nothing starts it, and the next decision finds it;
//   - offering an input before it is whole: that delays the others where a trainer stops while it copies, no more;
//   - DONE and READY of an older view: they stay true, because every surviving member reports what it holds.
//
// The macro is constant false, and adds nothing to the programs. The simulation compiles the sources a second time with
// RINGWAY_MUTANTS defined, and selects one. One thread.
#pragma once

#include <cstdint>

// M(name, what happens without the rule)
#define RINGWAY_EACH_MUTANT(M)                                                                                 \
  M(kCompleteWhileFrozen, "freeze: a frozen member still completes operations")                                \
  M(kInstallStoppedView, "promise: a view at or below stop is installed")                                      \
  M(kInstallOldView, "promise: a view at or below the own epoch is installed")                                 \
  M(kDecideOnOldReports, "reports: decided on reports with a stop below the view")                             \
  M(kRetryWhatIsHeld, "verdicts: retried although a member holds the outcome")                                 \
  M(kDecideTooEarly, "verdicts: decided without the reports of all that stay")                                 \
  M(kTooSmallAlone, "too small: a rank fails an operation without asking the master")                          \
  M(kWrongContributors, "verdicts: the new view's members are named as contributors")                          \
  M(kMarkDurableByVerdict, "commit is not durable: reported as complete while still fetching")                 \
  M(kKeepOldVerdict, "commit is not durable: an earlier verdict survives a view that has none")                \
  M(kFetchFromAnybody, "commit is not durable: fetched from the first member, holder or not")                  \
  M(kDropAfterVerdict, "retention: a holder drops the bytes once its own trainer has the outcome")             \
  M(kReportLargeByVerdict, "retention: a large operation committed by verdict is reported before all hold it") \
  M(kDropSmall, "retention: a small result is not kept for those who lack it")                                 \
  M(kAcceptOldFrames, "epochs: a frame of an older view is accepted in the current one")                       \
  M(kDropEarlyMessages, "epochs: messages of later views are dropped")                                         \
  M(kDropEarlyFrames, "epochs: frames of later views are dropped")                                             \
  M(kIgnoreAbortAhead, "epochs: an ABORT above the own view is ignored")                                       \
  M(kForgetOldLosses, "losses: a loss in an older view neither counts nor aborts the next view")               \
  M(kPartIsAll, "parts: a rank's own part is reported before all have theirs")                                 \
  M(kCommitOnePart, "parts: committed because one member that stays has its part")                             \
  M(kRetryParts, "parts: retried although all that stay have their parts")                                     \
  M(kNeedNobodyReady, "roots: a rank is done before those that it sends to agree on the root")                 \
  M(kForgetLayout, "roots: an operation goes on with others than its input is laid out for")                   \
  M(kDoneBeforeRoot, "roots: parts of a gather are done before the root has them")                             \
  M(kStampOfTheRoot, "roots: a result carries the stamps of those that its rank has heard")                    \
  M(kSendAnothersPart, "counts: an all_to_all_v sends what lies one element before")                           \
  M(kCompareNoCounts, "counts: an all_to_all_v takes any counts for its own")                                  \
  M(kSkipDone, "finishing: large operations are reported before all hold them")                                \
  M(kDoneTooEarly, "finishing: DONE is sent when the operation starts")                                        \
  M(kAcknowledgeAhead, "finishing: one operation more than is complete is acknowledged")                       \
  M(kSendTrainersInput, "finishing: after an early report, an input is sent that the trainer may overwrite")   \
  M(kStampOfOne, "finishing: a result carries one rank's stamp instead of the minimum")                        \
  M(kIgnoreMismatch, "finishing: different descriptors are not detected")                                      \
  M(kNeverReadyLate, "finishing: small operations that wait are never compared without a segment")             \
  M(kTakeTwice, "positions: a duplicate segment is added twice")                                               \
  M(kForgetLostSegments, "lane repair: segments lost with a lane are not resent")                              \
  M(kForgetUnseenLanes, "lane repair: segments sent on a lane that its dialler never saw up are not resent")   \
  M(kForgetMessages, "control repair: messages lost with a control link are not resent")                       \
  M(kTakeMessagesTwice, "control repair: a duplicate message is handled twice")                                \
  M(kAccuseControl, "control repair: a broken control link accuses its other end")                             \
  M(kBlameTheLink, "buffers: a trainer's write to memory in flight is blamed on the link")                     \
  M(kBarkAlone, "watchdog: reports a stall without asking the others")                                         \
  M(kBlameTheWaiting, "hung trainers: one that waits for a hung one is named as hung")                         \
  M(kBlameTheReceiving, "hung trainers: one that waits for a hung one's message is named as hung")             \
  M(kCountNoMessages, "hung trainers: sends and recvs do not show that a trainer lives")                       \
  M(kTrustStaging, "hung trainers: an input whose staging has stalled counts as submitted")                    \
  M(kKeepHung, "hung trainers: the master does not evict them")                                                \
  M(kDecideBelowQuorum, "quorum: the inputs are decided at the first offer")                                   \
  M(kDecideTwice, "quorum: an offer that comes late decides the inputs anew")                                  \
  M(kTakeOwnInputs, "quorum: a late rank adds its own input to what was decided")                              \
  M(kTakeEveryInput, "without inputs: a rank takes those that are not in")                                     \
  M(kSumNothing, "without inputs: an operation goes on when all that had one have left")                       \
  M(kKeepInputs, "quorum: a retry goes on with the inputs of the view before")                                 \
  M(kCountTheAbsent, "weights: an average is divided by the ranks whose inputs are not in, too")               \
  M(kForgetLateResults, "quorum: a result is forgotten before its late trainer has got it")                    \
  M(kForgetRefused, "memory: a segment that found no room is not requested again")                             \
  M(kKeepPrecision, "determinism: the owner of a quantized chunk keeps its own precision")                     \
  M(kUpdateAlone, "UpdateView: the newest view prepared here is adopted without agreement")                    \
  M(kStayOutOfStep, "UpdateView: a rank that submitted less before it does not skip the rest")                 \
  M(kReportOldUpdate, "UpdateView: a rank that learns of one in a later view reports the previous one")        \
  M(kNewcomerStartsAtOne, "UpdateView: a newcomer numbers its operations from one")                            \
  M(kWindowStopsAll, "eager window: blocks the operation that all wait for")                                   \
  M(kActivateAtOnce, "UpdateView: a newcomer switches before the members do")                                  \
  M(kReuseEpoch, "master: two views with one epoch")                                                           \
  M(kForgetTerm, "master: a restarted one numbers epochs with its predecessor's term")                         \
  M(kSendBeforeRecord, "master: views are sent before they are journaled")                                     \
  M(kForgetJournal, "master: a restarted one does not read its journal")                                       \
  M(kIgnoreFence, "masters: one that leads no more still writes")                                              \
  M(kIgnoreOrder, "masters: an earlier write that arrives late replaces a later one")                          \
  M(kNoAbortFromMaster, "master: collects reports without asking the members to stop")                         \
  M(kNoResync, "master: messages lost with a connection are not resent")                                       \
  M(kKeepGhosts, "master: peers dropped while disconnected are not notified")                                  \
  M(kSilenceIsDeath, "silence at the master: a silent member is dropped")                                      \
  M(kNoGrace, "silence in a recovery: no longer wait where most are silent")                                   \
  M(kHasteWithFew, "silence in a recovery: no time to reconnect where a few are silent")                       \
  M(kIgnoreSuspicions, "accusations: links that are down do not tell who is at fault")                         \
  M(kWeighNothing, "accusations: decided before those of the accused and their neighbours have come")          \
  M(kDropForUnheard, "silence at the master: a heard member is dropped for accusing silent ones")              \
  M(kForgetUnheard, "silence at the master: a group is deleted as soon as no member is heard")                 \
  M(kKeepReplaced, "master: a daemon restarted as another process keeps its peers")                            \
  M(kAbortForNewcomer, "newcomers: the loss of one in a prepared view stops the members")                      \
  M(kRevokeUnasked, "newcomers: a prepared view is taken back after the reply of one member")                  \
  M(kRevokeAtOnce, "newcomers: one is dropped although an open UpdateView may agree on it")                    \
  M(kAdmitTheHeld, "newcomers: one that takes the state is reported to the master before it has it")           \
  M(kHoldTheForming, "newcomers: peers of a group that has no members yet wait for their state")               \
  M(kKeepHeld, "newcomers: one that has taken the state is not reported to the master")                        \
  M(kAskNobody, "newcomers: the members are not told who takes their state")                                   \
  M(kTakeNothingOver, "links: nobody dials what the other end of a pair should dial and cannot")               \
  M(kSenderDecides, "messages: a sender ends its own message instead of asking the receiver")                  \
  M(kForgetDecision, "messages: what was decided before the sender submitted its message is not kept")         \
  M(kReceiveHalf, "messages: one is reported as received before all of it has come")                           \
  M(kReadyOnce, "messages: the receiver does not say in a new view that it still waits")                       \
  M(kAwaitTheLost, "messages: one whose other end has left waits on")                                          \
  M(kYieldNothing, "links: who is taken over from refuses the dialler")

// Likewise rules of the daemon's runtime, which carries the protocol out (tests/sim/runtime_mutants_test.cc).
#define RINGWAY_EACH_RUNTIME_MUTANT(M)                                                                 \
  M(kFlushNothing, "links: messages queued on a control link wait for the next event")                 \
  M(kAnswerNoOffer, "links: an accepted connection gets no reply")                                     \
  M(kForgetHeldOffers, "links: a connection accepted before the master names its peer waits for ever") \
  M(kKeepClosedLane, "links: a closed lane is neither dropped nor reported")                           \
  M(kKeepStalledLane, "links: a lane that flow control gives up is not closed")                        \
  M(kKeepNoConnection, "links: the connection of a lane that ends is closed")                          \
  M(kForgetDials, "links: the outcome of a dial does not reach the peer that requested it")            \
  M(kHideFailedDial, "links: a failed dial is not reported, and so not retried")                       \
  M(kDiscardScratch, "frames: a payload for a sum is discarded")                                       \
  M(kKeepFromMaster, "master: a peer's messages to the master are not sent")                           \
  M(kTickWithMasterOnly, "master: timers stop while it is away")                                       \
  M(kMissMasterBack, "master: peers are not notified that it is back")                                 \
  M(kForgetJoins, "master: joins requested while it was away are not repeated")

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
