// Each rule of the protocol (proto/rules.h) is applied in the simulation: by these worlds, or by a scenario of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "tests/sim/master_scripts.h"
#include "tests/sim/rule_scenarios.h"
#include "tests/sim/world.h"

namespace ringway::sim {
namespace {

struct Scenario {
  Rule rule;
  void (*run)();
};

const Scenario kScenarios[] = {
    {Rule::kSkipFinished, SendWhatIsFinished},
    {Rule::kSpareTheHeard, [] { MasterScript().AccuseTheDead(); }},
    {Rule::kAdoptersGo, [] { MasterScript().AdoptAlone(); }},
    {Rule::kDropTroubledNewcomer, [] { MasterScript().LoseANewcomersLink(); }},
    {Rule::kRefuseJoin, JoinAGroupWithOtherOptions},
    {Rule::kEvictByOrder, EvictByOrder},
    {Rule::kExpelledGoes, EvictByOrder},
    {Rule::kLargestSetStays, CutARingOfPairs},
    {Rule::kTwoOutcomes, ReportTwoOutcomes},
    {Rule::kAccuseFlapping, BreakLinksForAnHour},
    {Rule::kAccuseFull, TakeNoControlMessages},
    {Rule::kMessageTooMany, ReceiveTooMuchAhead},
    {Rule::kMessageTooFarAhead, CancelTooMuchAhead},
    {Rule::kMessageWithoutRoom, SendMoreThanThereIsRoomFor},
    {Rule::kMessageSentAgain, SendMoreThanThereIsRoomFor},
    {Rule::kBarkStuck, LoseSegmentsForGood},
    {Rule::kEvictLiar, HearALieAboutTheView},
    {Rule::kForgetGroup, CutOffTheMasterForLong},
    {Rule::kCloseExcessLane, WantFewerLanes},
};

std::size_t IndexOf(Rule rule) { return static_cast<std::size_t>(rule); }

// The first ones, and those of the first thousands that apply what these do not.
std::vector<std::uint64_t> Worlds() {
  std::vector<std::uint64_t> seeds(60);
  std::iota(seeds.begin(), seeds.end(), 1);
  seeds.insert(seeds.end(), {64, 80, 83, 131, 132, 136, 137, 166, 179, 259, 291, 303, 399, 678, 2886, 4646});
  return seeds;
}

class RulesTest : public testing::Test {
 protected:
  RulesTest() { rules::reached.fill(0); }
};

class ScenarioTest : public testing::TestWithParam<Scenario> {
 protected:
  ScenarioTest() { rules::reached.fill(0); }
};

TEST_P(ScenarioTest, AppliesItsRule) {
  GetParam().run();
  EXPECT_GT(rules::reached[IndexOf(GetParam().rule)], 0U) << rules::kRules[IndexOf(GetParam().rule)].row;
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioTest, testing::ValuesIn(kScenarios), [](const auto& tested) {
  return std::string(rules::kRules[IndexOf(tested.param.rule)].name);
});

// A rule that is missing here needs a scenario, or another of the worlds that `mutants_run --rules` names.
TEST_F(RulesTest, AllOthersAreAppliedInTheseWorlds) {
  for (const std::uint64_t seed : Worlds()) EXPECT_EQ(RunWorld(seed, false).failure, "") << "seed " << seed;
  for (std::size_t rule = 0; rule < rules::kRules.size(); ++rule) {
    const auto is_its = [&](const Scenario& scenario) { return IndexOf(scenario.rule) == rule; };
    if (std::any_of(std::begin(kScenarios), std::end(kScenarios), is_its)) continue;
    EXPECT_GT(rules::reached[rule], 0U) << rules::kRules[rule].name << ": " << rules::kRules[rule].row;
  }
}

}  // namespace
}  // namespace ringway::sim
