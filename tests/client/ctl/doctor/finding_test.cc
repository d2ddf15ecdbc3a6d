#include "client/ctl/doctor/finding.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ringway::ctl {
namespace {

const Findings kFindings = {{.level = Level::kOk, .what = "fine", .check = "clock"},
                            {.level = Level::kSkip, .what = "hidden", .check = "mtu"},
                            {.level = Level::kWarn, .what = "slow", .remedy = "do this", .check = "sysctl"},
                            {.level = Level::kFail, .what = "broken", .remedy = "do that", .check = "certificates"}};

TEST(FindingTest, TextHasALineEachWithItsRemedyBelow) {
  EXPECT_EQ(RenderFindings(kFindings),
            "ok    clock         fine\n"
            "skip  mtu           hidden\n"
            "warn  sysctl        slow\n"
            "      -> do this\n"
            "FAIL  certificates  broken\n"
            "      -> do that\n"
            "1 serious, 1 to look at\n");
  EXPECT_TRUE(AnyFails(kFindings));
}

TEST(FindingTest, NothingThatHurtsIsSaid) {
  const Findings fine = {kFindings[0], kFindings[1]};
  EXPECT_FALSE(AnyFails(fine));
  EXPECT_TRUE(RenderFindings(fine).ends_with("\nnothing found that hurts\n"));
}

TEST(FindingTest, JsonHasTheSame) {
  const nlohmann::json report = nlohmann::json::parse(FindingsJson(kFindings));
  EXPECT_EQ(report["serious"], 1);
  EXPECT_EQ(report["warnings"], 1);
  EXPECT_EQ(report["findings"].size(), 4U);
  EXPECT_EQ(report["findings"][3],
            (nlohmann::json{{"check", "certificates"}, {"level", "fail"}, {"what", "broken"}, {"remedy", "do that"}}));
}

TEST(FindingTest, WordsOfOthersMoveNoCursorAndFillNoScreen) {
  const Findings hostile = {{.level = Level::kWarn, .what = "\x1b[2J\r\nok    clock", .check = "master"},
                            {.level = Level::kWarn, .what = std::string(1 << 20, 'x'), .check = "master"}};
  const std::string text = RenderFindings(hostile);
  EXPECT_TRUE(text.starts_with("warn  master        ?[2J??ok    clock\n"));
  EXPECT_LT(text.size(), 3000U);
  const Findings torn = {{.level = Level::kWarn, .what = "\xff\xfe", .check = "master"}};
  EXPECT_FALSE(nlohmann::json::parse(FindingsJson(torn), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace ringway::ctl
