#include "client/bench/groups.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/bench/report.h"

namespace ringway::bench {
namespace {

TEST(GroupsTest, IndexIsOneWhereAllAreEqualAndAShareWhereOneHasAll) {
  EXPECT_DOUBLE_EQ(JainIndex({5, 5, 5, 5}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({7, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex({1, 3}), 16.0 / 20);
}

TEST(GroupsTest, RowHasTheSpreadOfMediansTheRateOfAllAndWhatIsWrong) {
  const std::string row = GroupsRow({{.bytes = 1'000'000, .times_ms = {2, 2, 2}, .wrong = 1},
                                     {.bytes = 1'000'000, .times_ms = {4, 4, 4}, .wrong = 2}});
  EXPECT_EQ(row, "       1000000      2      2.000      3.000      4.000    0.750  0.900        3\n");
}

class RunGroupsTest : public ::testing::Test {
 protected:
  RunGroupsTest() {
    options_.group = "job";
    options_.groups = 3;
    options_.json_path = ::testing::TempDir() + "/groups_test.json";
    std::filesystem::remove(options_.json_path);
  }
  ~RunGroupsTest() override { std::filesystem::remove(options_.json_path); }

  // What a process would do that measures: here the time of a group is its number.
  static int Measure(const Options& own) {
    SizeResult result;
    result.bytes = 4096;
    result.times_ms = {std::stod(own.group.substr(own.group.rfind('.') + 1)) + 1};
    return WriteFile(own.json_path, ToJson({result}, 0)).empty() ? 0 : 2;
  }
  nlohmann::json Written() const { return nlohmann::json::parse(std::ifstream(options_.json_path), nullptr, false); }

  Options options_;
};

TEST_F(RunGroupsTest, EachGroupHasAProcessAndANameOfItsOwn) {
  EXPECT_EQ(RunGroups(options_, Measure), 0);
  const nlohmann::json written = Written();
  ASSERT_EQ(written["groups"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(written["groups"][i]["results"][0]["times_ms"][0], static_cast<double>(i + 1));
  }
}

TEST_F(RunGroupsTest, WrongElementsOfOneAreTheStatusOfAll) {
  const auto wrong = [](const Options& own) { return Measure(own) == 0 && own.group == "job.1" ? 1 : 0; };
  EXPECT_EQ(RunGroups(options_, wrong), 1);
  EXPECT_TRUE(Written().contains("groups"));
}

TEST_F(RunGroupsTest, WithoutTheResultsOfOneThereIsNoTable) {
  const auto fails = [](const Options& own) { return own.group == "job.2" ? 2 : Measure(own); };
  EXPECT_EQ(RunGroups(options_, fails), 2);
  const auto dies = [](const Options& own) { return own.group == "job.0" ? std::raise(SIGKILL) : Measure(own); };
  EXPECT_EQ(RunGroups(options_, dies), 2);
  EXPECT_FALSE(std::filesystem::exists(options_.json_path));
}

}  // namespace
}  // namespace ringway::bench
