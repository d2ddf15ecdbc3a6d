// Coverage of the protocol: which of its rules a simulated world has applied, and how often (tests/sim).
//
//   RINGWAY_REACHED(kServeFetch);                                    // here the rule is applied
//   RINGWAY_REACHED_IF(!remaining.contains(peer), kAccusedAccuser);  // here it is, if that holds
//
// The rules are the rows of the tables in proto/PROTOCOL.md, each by its first cell: tests/proto/protocol_test.cc
// compares them. Not those of the table of mutants, whose rules are each proven to matter by a planted bug
// (proto/mutation.h), nor those of constants, connections, schedules and certificates.
//
// The macros do nothing, and evaluate nothing, in the programs. The simulation compiles the sources a second time with
// RINGWAY_MUTANTS defined, and counts. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// R(name, row)
#define RINGWAY_EACH_RULE_OF_SEGMENTS(R)                                                            \
  R(kSkipOldEpoch, "of an older epoch, a finished operation, or a position that is already filled") \
  R(kSkipFinished, "of an older epoch, a finished operation, or a position that is already filled") \
  R(kSkipFilled, "of an older epoch, a finished operation, or a position that is already filled")   \
  R(kHoldEarlyFrame, "of a later epoch (early frame)")                                              \
  R(kSkipWithoutRoom, "no room")                                                                    \
  R(kRefusePayload, "wrong payload hash")                                                           \
  R(kCheckRefused, "wrong payload hash")

#define RINGWAY_EACH_RULE_OF_PEERS(R)    \
  R(kTakeReady, "`Ready`")               \
  R(kKeepReady, "`Ready`")               \
  R(kSayReadyLate, "`Ready`")            \
  R(kTakeDone, "`Done`")                 \
  R(kKeepDone, "`Done`")                 \
  R(kResendSegment, "`Resend`")          \
  R(kFreezeForPeer, "`Abort`")           \
  R(kServeFetch, "`Fetch`")              \
  R(kActivate, "`Activate`")             \
  R(kTakeLaneClosed, "`LaneClosed`")     \
  R(kTakeLanesWanted, "`LanesWanted`")   \
  R(kCloseExcessLane, "`LanesWanted`")   \
  R(kTakePointToPoint, "`PointToPoint`") \
  R(kTakeProbe, "`Probe`")               \
  R(kTakeHeartbeat, "`PeerHeartbeat`")   \
  R(kTakeOffer, "`Offer`")               \
  R(kTakeInputs, "`Inputs`")

#define RINGWAY_EACH_RULE_OF_THE_MASTER(R)                          \
  R(kAcceptJoin, "`JoinRequest` → `JoinAccepted` or `JoinRefused`") \
  R(kRefuseJoin, "`JoinRequest` → `JoinAccepted` or `JoinRefused`") \
  R(kOpenLinks, "`Candidates`, `Forget`")                           \
  R(kForgetPeer, "`Candidates`, `Forget`")                          \
  R(kTakeConnected, "`Connected`, `DialFailed`")                    \
  R(kTakeDialFailed, "`Connected`, `DialFailed`")                   \
  R(kTakeMeasured, "`Measured`")                                    \
  R(kSayPending, "`Pending`")                                       \
  R(kInstallView, "`ViewFor`")                                      \
  R(kKeepPrepared, "`ViewFor`")                                     \
  R(kAdoptPrepared, "`Installed`")                                  \
  R(kRevokePrepared, "`RevokePrepared` → `PreparedRevoked`")        \
  R(kDropTakenBack, "`RevokePrepared` → `PreparedRevoked`")         \
  R(kTakeReport, "`Report`")                                        \
  R(kSkipStaleReport, "`Report`")                                   \
  R(kFreezeForMaster, "`AbortFor`")                                 \
  R(kTakeWithdraw, "`Withdraw`")                                    \
  R(kEndEvicted, "`Evicted`")                                       \
  R(kTakeDaemonHeartbeat, "`DaemonHeartbeat`")                      \
  R(kEvictByOrder, "`EvictRequest`, `DrainRequest` → `OrderReply`")

#define RINGWAY_EACH_RULE_OF_WHO_STAYS(R)                                                  \
  R(kLeaverGoes, "it left, was expelled, or its daemon is back as another process")        \
  R(kExpelledGoes, "it left, was expelled, or its daemon is back as another process")      \
  R(kReplacedGoes, "it left, was expelled, or its daemon is back as another process")      \
  R(kSilentAccusedGoes, "accused, and it does not report to the master: dead, or stopped") \
  R(kThirdStaysAtOnce, "two hosts of three are lost in the same moment")                   \
  R(kThirdWaitsForGrace, "two hosts of three are lost in the same moment")                 \
  R(kLonelyGoes, "one member at odds with all others, whoever accuses whom")               \
  R(kLargerSideStays, "two sides that do not reach each other")                            \
  R(kLargestSetStays, "other accusations")                                                 \
  R(kLeastTrustedGoes, "several sets of that size")                                        \
  R(kAccusedReturns, "its daemon reconnects while it is accused, as the same process")     \
  R(kAccusedAccuses, "accusations by a member that is accused itself")                     \
  R(kSuspicionsDropNobody, "suspicions without an accusation")                             \
  R(kAccusedIsGone, "accused, and its connection to the master has ended")                 \
  R(kAccusedReports, "accused, and the master hears it")                                   \
  R(kAccusedKeepsSilent, "accused, and the master hears it")                               \
  R(kDisputeWaits, "two members that the master hears are in an accusation")               \
  R(kDisputeIsSettled, "two members that the master hears are in an accusation")

#define RINGWAY_EACH_RULE_OF_VERDICTS(R)                                           \
  R(kCommitResult, "a member of the new view holds it")                            \
  R(kCommitFailure, "a member of the new view holds it")                           \
  R(kHolderIsDone, "a member of the new view holds it")                            \
  R(kHolderIsDoneBeyond, "a member of the new view holds it")                      \
  R(kCommitParts, "all have their part of one epoch")                              \
  R(kTwoOutcomes, "members hold two outcomes")                                     \
  R(kMismatch, "descriptors differ")                                               \
  R(kPartnerLost, "its root is gone, or the ranks that its input is laid out for") \
  R(kCancelled, "a member's trainer cancels it")                                   \
  R(kOverdue, "its deadline has passed at a member")                               \
  R(kFailOnLoss, "a member is lost, and the group wants errors")                   \
  R(kTooSmall, "the group is below its minimum")                                   \
  R(kRetry, "none of these")

#define RINGWAY_EACH_RULE_OF_REPAIRS(R)                                         \
  R(kResendSegments, "a lane closes")                                           \
  R(kAnswerUnseenLane, "a lane closes that one end never saw up")               \
  R(kResendMessages, "a control link closes")                                   \
  R(kSkipDuplicate, "a control message comes twice")                            \
  R(kAccuseGone, "no link is left, and a dial is refused")                      \
  R(kAccuseBroken, "a link stays closed")                                       \
  R(kAccuseFlapping, "links close again and again")                             \
  R(kAccuseSilent, "nothing is heard of a member")                              \
  R(kAccuseFull, "a member takes no control messages")                          \
  R(kTakeOverDials, "one end cannot be dialled")                                \
  R(kYieldDials, "one end cannot be dialled")                                   \
  R(kHoldEarlyMessage, "a message comes before its view")                       \
  R(kRefuseView, "a view comes that the member has promised not to install")    \
  R(kAbortViewOfLost, "a view contains a peer that is lost")                    \
  R(kFetchResult, "a rank lacks a committed result")                            \
  R(kDoneAgain, "a verdict is about what this rank has forgotten")              \
  R(kKeepVerdict, "a failure is about what this rank has not submitted")        \
  R(kSkipBehind, "ranks have submitted different numbers before an UpdateView") \
  R(kBarkStuck, "nothing moves at any member")                                  \
  R(kEvictHung, "a trainer submits nothing, and all wait for it")               \
  R(kLeaveModified, "a trainer writes to memory in flight")                     \
  R(kBaseIsPrepared, "a member is lost while a prepared view is adopted")       \
  R(kAdoptersGo, "a member is lost while a prepared view is adopted")           \
  R(kTakeBackLate, "a newcomer is gone that has been adopted")                  \
  R(kDropTroubledNewcomer, "a newcomer's link to a member is broken")           \
  R(kDropPending, "a peer that is in no view is not heard")                     \
  R(kRecoverGroup, "the master restarts")                                       \
  R(kResync, "a daemon's connection to the master is opened again")             \
  R(kReportAgain, "a daemon's connection to the master is opened again")        \
  R(kWithdrawMissing, "a daemon comes back without a peer")                     \
  R(kNotifyUnknown, "the master does not know a peer")                          \
  R(kHoldUntilRecorded, "a change is not in the journal yet")                   \
  R(kWaitForJournal, "the journal cannot be written")                           \
  R(kEvictLiar, "a report stops above every epoch there ever was")              \
  R(kAwaitMost, "more than half of a group is not heard")                       \
  R(kDropAwaited, "a member does not report in time")                           \
  R(kSpareTheHeard, "an accused member is no longer heard")                     \
  R(kForgetGroup, "no member is heard for long")                                \
  R(kLeaveAlone, "a member leaves, and the master does not answer")

#define RINGWAY_EACH_RULE_OF_MESSAGES(R)                                     \
  R(kMessageReady, "`STEP_READY`")                                           \
  R(kMessageSentAgain, "`STEP_READY`")                                       \
  R(kMessageDecided, "`STEP_DECIDED`")                                       \
  R(kMessageAsked, "`STEP_ASK`")                                             \
  R(kMessageSettled, "`STEP_SETTLED`")                                       \
  R(kMessageStops, "freeze")                                                 \
  R(kMessageOtherEndLost, "a new view without the other end")                \
  R(kMessageGoesAhead, "not submitted by the receiver")                      \
  R(kMessageHeld, "not submitted by the receiver")                           \
  R(kMessageWithoutRoom, "not submitted by the receiver")                    \
  R(kMessageFailsEarly, "failed before the other trainer has submitted it")  \
  R(kMessageTooFarAhead, "failed before the other trainer has submitted it") \
  R(kMessageTooMany, "more than 2,048 messages of one peer known in advance")

#define RINGWAY_EACH_RULE_OF_INPUTS(R)                                     \
  R(kGoOnWithout, "the quorum is there, and the grace is over")            \
  R(kAwaitNobody, "the quorum is there, and nobody else can come in time") \
  R(kOffersDiffer, "offers differ")                                        \
  R(kRunUnsubmitted, "decided, and not submitted here")                    \
  R(kBindByDescriptor, "without the newest members' inputs")               \
  R(kCatchUp, "submitted after that")                                      \
  R(kForgetUnsubmitted, "a view ends before there is an outcome")          \
  R(kUpdateAfterUnsubmitted, "an UpdateView")                              \
  R(kLeaveBehind, "a trainer is too far behind")

#define RINGWAY_EACH_RULE(R)         \
  RINGWAY_EACH_RULE_OF_SEGMENTS(R)   \
  RINGWAY_EACH_RULE_OF_PEERS(R)      \
  RINGWAY_EACH_RULE_OF_THE_MASTER(R) \
  RINGWAY_EACH_RULE_OF_WHO_STAYS(R)  \
  RINGWAY_EACH_RULE_OF_VERDICTS(R)   \
  RINGWAY_EACH_RULE_OF_REPAIRS(R)    \
  RINGWAY_EACH_RULE_OF_INPUTS(R)     \
  RINGWAY_EACH_RULE_OF_MESSAGES(R)

namespace ringway::rules {

enum class Rule : std::uint8_t {
#define RINGWAY_NAME_RULE(name, row) name,
  RINGWAY_EACH_RULE(RINGWAY_NAME_RULE)
#undef RINGWAY_NAME_RULE
};

struct NamedRule {
  const char* name;
  const char* row;
};

inline constexpr auto kRules = std::to_array<NamedRule>({
#define RINGWAY_NAME_RULE(name, row) {#name, row},
    RINGWAY_EACH_RULE(RINGWAY_NAME_RULE)
#undef RINGWAY_NAME_RULE
});

#ifdef RINGWAY_MUTANTS
inline std::array<std::uint64_t, kRules.size()> reached{};  // how often, by Rule
#define RINGWAY_REACHED_IF(condition, name)                                                              \
  static_cast<void>(::ringway::rules::reached[static_cast<std::size_t>(::ringway::rules::Rule::name)] += \
                    (condition) ? 1 : 0)
#else
#define RINGWAY_REACHED_IF(condition, name) \
  static_cast<void>(decltype((condition) ? ::ringway::rules::Rule::name : ::ringway::rules::Rule{}){})
#endif
#define RINGWAY_REACHED(name) RINGWAY_REACHED_IF(true, name)

}  // namespace ringway::rules
