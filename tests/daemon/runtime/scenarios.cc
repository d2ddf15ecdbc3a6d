#include "tests/daemon/runtime/scenarios.h"

#include <optional>

#include "tests/daemon/runtime/planes.h"

namespace ringway::daemon {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
const Duration kDetect = std::chrono::milliseconds(CoordinatorOptions().detect_ms);
const Duration kGrace = std::chrono::milliseconds(CoordinatorOptions().partition_grace_ms);
// Bounds a recovery in which no member is lost.
constexpr Duration kSoon = 2 * kSecond;
constexpr std::uint64_t kMiddle = kSummedBytes / 8;  // on one lane

// The first of them that is wrong.
template <typename... Steps>
std::string InTurn(const Steps&... steps) {
  std::string why;
  (void)((why = steps(), why.empty()) && ...);
  return why;
}

auto Join(Planes& planes) {
  return [&planes] { return planes.Join(kSoon); };
}

auto AllReduce(Planes& planes, float round) {
  return [&planes, round] { return planes.AllReduce(round); };
}

std::string SumsOf(std::size_t daemons, std::uint64_t seed) {
  Planes planes({.daemons = daemons, .seed = seed});
  return InTurn(Join(planes), AllReduce(planes, 1), AllReduce(planes, 2));
}

// Whatever befalls the link, nobody is missed for it: the view is the same afterwards.
std::string SumsOverABadLink(Planes& planes, bool lane, std::uint64_t bytes, void (MadeLink::*fault)() const) {
  std::uint64_t epoch = 0;
  return InTurn(
      Join(planes), AllReduce(planes, 1),
      [&] {
        epoch = planes.epoch();
        return planes.AllReduceOverABadLink(2, lane, bytes, fault);
      },
      AllReduce(planes, 3), [&] { return planes.epoch() == epoch ? "" : "somebody was missed"; });
}

std::string TwoSum(std::uint64_t seed) { return SumsOf(2, seed); }
std::string ThreeSum(std::uint64_t seed) { return SumsOf(3, seed); }

std::string LaneBreaks(std::uint64_t seed) {
  Planes planes({.seed = seed});
  return SumsOverABadLink(planes, true, kMiddle, &MadeLink::Break);
}

std::string LaneFallsSilent(std::uint64_t seed) {
  Planes planes({.seed = seed, .far = true});
  return SumsOverABadLink(planes, true, kMiddle / 4, &MadeLink::Silence);
}

std::string ControlLinkBreaks(std::uint64_t seed) {
  Planes planes({.seed = seed});
  return SumsOverABadLink(planes, false, 1, &MadeLink::Break);
}

std::string DialsFail(std::uint64_t seed) {
  Planes planes({.daemons = 3, .seed = seed});
  planes.world().FailDials(3);
  return InTurn(Join(planes), AllReduce(planes, 1));
}

// The master's word about a peer and the peer's connection take different ways: for some seeds the one comes first, for
// some the other.
std::string LinksComeBeforeTheMastersWord(std::uint64_t seed) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    Planes planes({.daemons = 3, .seed = 1000 * seed + i});
    if (std::string why = planes.Join(kSoon); !why.empty()) return why;
  }
  return "";
}

// Isolates the last daemon in the middle, and then calls `after(since)` between any two events.
template <typename After>
std::string AllReduceThatLosesTheLast(Planes& planes, float round, const After& after) {
  World& world = planes.world();
  const std::uint64_t carried = world.lane_bytes();
  std::optional<TimePoint> lost;
  std::string why = planes.AllReduce(round, [&] {
    if (!lost && world.lane_bytes() >= carried + kMiddle) {
      lost = world.now();
      world.Isolate(world.size() - 1);
    }
    if (lost) after(world.now() - *lost);
  });
  return lost ? why : "it was over before anybody was lost";
}

// It is missed no sooner than it has been silent for the detection time, of which a heartbeat may have been due.
std::string DaemonIsLost(std::uint64_t seed) {
  Planes planes({.daemons = 3, .seed = seed});
  Duration took{};
  return InTurn(
      Join(planes), AllReduce(planes, 1),
      [&] { return AllReduceThatLosesTheLast(planes, 2, [&](Duration since) { took = since; }); },
      [&] { return kDetect - kSecond <= took && took <= kDetect + kSecond ? "" : "took " + SecondsText(took); },
      AllReduce(planes, 3));
}

std::string MasterIsLost(std::uint64_t seed) {
  Planes planes({.seed = seed});
  World& world = planes.world();
  std::uint64_t epoch = 0;
  return InTurn(
      Join(planes), AllReduce(planes, 1),
      [&] {
        epoch = planes.epoch();
        world.LoseMaster();
        const TimePoint back = world.now() + kGrace + kDetect;
        for (float round = 2; world.now() < back; ++round) {
          if (std::string why = planes.AllReduce(round); !why.empty()) return why;
          world.RunFor(5 * kSecond);
        }
        return planes.AllReduceOverABadLink(20, true, kMiddle, &MadeLink::Break);
      },
      [&] {
        world.FindMaster();
        world.RunFor(5 * kSecond);
        return planes.AllReduce(21);
      },
      [&] { return planes.epoch() == epoch ? "" : "somebody was missed"; });
}

// The loss is decided when the master is back.
std::string DaemonIsLostWithTheMaster(std::uint64_t seed) {
  Planes planes({.daemons = 3, .seed = seed});
  World& world = planes.world();
  bool away = false;
  return InTurn(
      Join(planes), AllReduce(planes, 1),
      [&] {
        world.LoseMaster();
        away = true;
        return AllReduceThatLosesTheLast(planes, 2, [&](Duration since) {
          if (since < 3 * kDetect || !away) return;
          away = false;
          world.FindMaster();
        });
      },
      [&] { return away ? "it was decided without the master" : ""; }, AllReduce(planes, 3));
}

std::string TrainersComeBeforeTheMaster(std::uint64_t seed) {
  Planes planes({.seed = seed});
  planes.world().LoseMaster();
  if (planes.Join(5 * kSecond).empty()) return "a group without a master";
  planes.world().FindMaster();
  return InTurn(Join(planes), AllReduce(planes, 1));
}

// Others come after a pause, as processes that are started again do.
std::string JoinAnew(Planes& planes, Duration pause) {
  World& world = planes.world();
  planes.LoseTrainers();
  world.RunFor(pause);
  const std::size_t before = world.lanes_made();
  if (std::string why = planes.Join(); !why.empty()) return why;
  const std::size_t fresh = world.lanes_made() - before;
  return fresh == 0 ? "" : std::to_string(fresh) + " of their lanes are fresh connections";
}

std::string TrainersComeAgain(std::uint64_t seed, bool far, Duration pause = kSecond) {
  Planes planes({.daemons = 3, .seed = seed, .far = far});
  const auto anew = [&] { return JoinAnew(planes, pause); };
  return InTurn(Join(planes), AllReduce(planes, 1), anew, AllReduce(planes, 2), anew, AllReduce(planes, 3));
}

std::string TrainersComeAgainNearby(std::uint64_t seed) { return TrainersComeAgain(seed, false); }
std::string TrainersComeAgainFar(std::uint64_t seed) { return TrainersComeAgain(seed, true); }
// Before the peers of those that ended have left.
std::string TrainersComeAgainAtOnce(std::uint64_t seed) { return TrainersComeAgain(seed, true, Duration()); }

// Connections that fall silent while nobody uses them.
std::string KeptLanesFallSilent(std::uint64_t seed) {
  Planes planes({.daemons = 2, .seed = seed});
  World& world = planes.world();
  return InTurn(
      Join(planes), AllReduce(planes, 1),
      [&] {
        planes.LoseTrainers();
        world.RunFor(kSecond);
        for (const MadeLink& link : world.links()) link.Silence();
        return planes.Join();
      },
      AllReduce(planes, 2));
}

constexpr Scenario kScenarios[] = {
    {"TwoDaemonsSum", &TwoSum},
    {"ThreeDaemonsSum", &ThreeSum},
    {"LaneThatBreaksIsReplaced", &LaneBreaks},
    {"LaneThatFallsSilentIsReplaced", &LaneFallsSilent},
    {"ControlLinkThatBreaksIsReplaced", &ControlLinkBreaks},
    {"DialsThatFailAreRepeated", &DialsFail},
    {"LinksThatComeBeforeTheMastersWordWaitForIt", &LinksComeBeforeTheMastersWord},
    {"SurvivorsOfALostDaemonCommitAfterTheDetectionTime", &DaemonIsLost},
    {"MasterThatIsAwayForLongIsNotMissed", &MasterIsLost},
    {"SurvivorsCommitWhenTheMasterIsBack", &DaemonIsLostWithTheMaster},
    {"TrainersThatComeBeforeTheMasterWaitForIt", &TrainersComeBeforeTheMaster},
    {"TrainersThatComeAgainUseTheSameConnections", &TrainersComeAgainNearby},
    {"TrainersThatComeAgainUseTheSameConnectionsFar", &TrainersComeAgainFar},
    {"TrainersThatComeAgainAtOnceUseTheSameConnections", &TrainersComeAgainAtOnce},
    {"KeptConnectionsThatFallSilentAreReplaced", &KeptLanesFallSilent},
};

}  // namespace

std::span<const Scenario> Scenarios() { return kScenarios; }

}  // namespace ringway::daemon
