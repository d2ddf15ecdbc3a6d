// Leaves out one rule after the other and expects the random worlds to detect it.
//
// Each mutant runs in a process of its own: a broken invariant ends it, which counts as detection.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "proto/mutation.h"
#include "tests/sanitized.h"
#include "tests/sim/named_mutant.h"
#include "tests/sim/world.h"

namespace ringway::sim {
namespace {

using mutation::Mutant;

constexpr std::uint64_t kSeedsMax = 40000;
constexpr std::uint64_t kUnmutatedSeeds = 50;

std::vector<NamedMutant> MutantsToHunt() {
  std::vector<NamedMutant> mutants = {RINGWAY_EACH_MUTANT(RINGWAY_NAMED_MUTANT)};
  std::erase_if(mutants, [](const NamedMutant& one) {  // rare_mutants_test.cc has these
    return one.mutant == Mutant::kBlameTheReceiving || one.mutant == Mutant::kCountNoMessages ||
           one.mutant == Mutant::kReportOldUpdate || one.mutant == Mutant::kKeepOldVerdict ||
           one.mutant == Mutant::kDropForUnheard || one.mutant == Mutant::kDoneBeforeRoot ||
           one.mutant == Mutant::kNeverReadyLate || one.mutant == Mutant::kWindowStopsAll ||
           one.mutant == Mutant::kWeighNothing || one.mutant == Mutant::kIgnoreSuspicions ||
           one.mutant == Mutant::kAdmitTheHeld || one.mutant == Mutant::kHoldTheForming ||
           one.mutant == Mutant::kKeepHeld || one.mutant == Mutant::kAskNobody || one.mutant == Mutant::kIgnoreFence ||
           one.mutant == Mutant::kIgnoreOrder;
  });
  return mutants;
}

struct Finding {
  std::uint64_t seed;  // the one that is running; 0: all are done
  char how[200];
};

// Some rules matter only where few kinds of faults coincide often: every `step` seeds have such worlds (world.cc).
// If thousands of worlds notice nothing, the search begins shortly before one that did; after a change of the worlds it
// may take minutes again.
struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t step = 1;
};
Seeds SeedsFor(Mutant mutant) {
  switch (mutant) {
    case Mutant::kTakeMessagesTwice:
      return {.first = 1220};
    case Mutant::kDecideOnOldReports:  // 13 finds it after a million events
      return {.first = 14};
    case Mutant::kForgetJournal:
      return {.first = 440};
    case Mutant::kSilenceIsDeath:
      return {.first = 580};
    case Mutant::kForgetOldLosses:
      return {.first = 5690};
    case Mutant::kForgetUnseenLanes:
      return {.first = 2850};
    case Mutant::kSendBeforeRecord:
      return {.first = 1600};
    case Mutant::kInstallOldView:
      return {.first = 9790};
    case Mutant::kAbortForNewcomer:
    case Mutant::kRevokeUnasked:
    case Mutant::kRevokeAtOnce:
      return {.first = 9, .step = 16};
    case Mutant::kBlameTheWaiting:
    case Mutant::kTrustStaging:
    case Mutant::kKeepHung:
      return {.first = 10, .step = 16};
    case Mutant::kNeedNobodyReady:
    case Mutant::kForgetLayout:
    case Mutant::kStampOfTheRoot:
    case Mutant::kSendAnothersPart:
    case Mutant::kCompareNoCounts:
      return {.first = 7, .step = 16};
    case Mutant::kDecideBelowQuorum:
    case Mutant::kDecideTwice:
    case Mutant::kTakeOwnInputs:
    case Mutant::kTakeEveryInput:
    case Mutant::kSumNothing:
    case Mutant::kKeepInputs:
    case Mutant::kCountTheAbsent:
    case Mutant::kForgetLateResults:
      return {.first = 3, .step = 16};
    case Mutant::kNoGrace:
      return {.first = 13, .step = 16};
    default:
      return {};
  }
}

void Hunt(Mutant mutant, const Seeds& seeds, std::uint64_t count, Finding* finding) {
  mutation::active = mutant;
  for (std::uint64_t seed = seeds.first; count-- > 0; seed += seeds.step) {
    finding->seed = seed;
    const WorldReport report = RunWorld(seed, false);
    if (report.failure.empty()) continue;
    std::snprintf(finding->how, sizeof(finding->how), "%s", report.failure.c_str());
    return;
  }
  finding->seed = 0;
}

// Returns the seed that detects it and how; seed 0 if none does.
Finding HuntInAnotherProcess(Mutant mutant, const Seeds& seeds, std::uint64_t count) {
  void* shared = mmap(nullptr, sizeof(Finding), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto* finding = new (shared) Finding{};
  std::snprintf(finding->how, sizeof(finding->how), "a broken invariant ended the process");
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    Hunt(mutant, seeds, count, finding);
    _exit(0);
  }
  EXPECT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  const Finding out = *finding;
  munmap(shared, sizeof(Finding));
  return out;
}

TEST(Mutants, NoneIsFoundWhereNothingIsLeftOut) {
  EXPECT_EQ(HuntInAnotherProcess(Mutant::kNone, {}, kUnmutatedSeeds).seed, 0U);
}

class MutantTest : public testing::TestWithParam<NamedMutant> {};

TEST_P(MutantTest, IsFound) {
  if (kSanitized) GTEST_SKIP() << "found without sanitizers";
  const Finding finding = HuntInAnotherProcess(GetParam().mutant, SeedsFor(GetParam().mutant), kSeedsMax);
  ASSERT_NE(finding.seed, 0U) << GetParam().rule << ": " << kSeedsMax << " seeds did not notice";
  const Finding without = HuntInAnotherProcess(Mutant::kNone, {.first = finding.seed}, 1);
  EXPECT_EQ(without.seed, 0U) << "this world fails without a planted bug, too: " << without.how;
  std::printf("%s (%s): seed %llu: %s\n", GetParam().name, GetParam().rule,
              static_cast<unsigned long long>(finding.seed), finding.how);
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(MutantsToHunt()), NameOfTest);

}  // namespace
}  // namespace ringway::sim
