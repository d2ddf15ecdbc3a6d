// Leaves out one rule of the runtime after the other and expects a few daemons to notice.
//
// Each mutant runs in a process of its own: an invariant that breaks ends it, which is noticing too.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "proto/mutation.h"
#include "tests/daemon/runtime/scenarios.h"
#include "tests/sim/named_mutant.h"

namespace ringway::daemon {
namespace {

using mutation::Mutant;

std::string WhyBroken() {
  for (const Scenario& scenario : Scenarios()) {
    if (const std::string why = scenario.why_wrong(1); !why.empty()) return std::string(scenario.name) + ": " + why;
  }
  return "";
}

bool IsNoticed(Mutant mutant) {
  const pid_t child = fork();
  if (child == 0) {
    mutation::active = mutant;
    const std::string why = WhyBroken();
    std::printf("%s\n", why.c_str());
    std::fflush(stdout);
    _exit(why.empty() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status != 0;
}

constexpr sim::NamedMutant kMutants[] = {RINGWAY_EACH_RUNTIME_MUTANT(RINGWAY_NAMED_MUTANT)};

class RuntimeMutantTest : public testing::TestWithParam<sim::NamedMutant> {};

TEST(RuntimeMutants, NothingIsNoticedWhereNothingIsLeftOut) { EXPECT_FALSE(IsNoticed(Mutant::kNone)); }

TEST_P(RuntimeMutantTest, IsNoticed) { EXPECT_TRUE(IsNoticed(GetParam().mutant)) << GetParam().rule; }

INSTANTIATE_TEST_SUITE_P(All, RuntimeMutantTest, testing::ValuesIn(kMutants), sim::NameOfTest);

}  // namespace
}  // namespace ringway::daemon
