#include "client/bench/groups.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
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
  const std::string row = GroupsRow({{.bytes = 1'000'000, .times_ms = {2, 2, 2}, .wrong = 1, .checked = true},
                                     {.bytes = 1'000'000, .times_ms = {4, 4, 4}, .wrong = 2, .checked = true}});
  EXPECT_EQ(row, "       1000000      2      2.000      3.000      4.000    0.750  0.900        3\n");
}

TEST(GroupsTest, RowSaysNothingOfWhatWasNotCheckedOrMoved) {
  EXPECT_EQ(GroupsRow({{.bytes = 0, .times_ms = {2}}, {.bytes = 0, .times_ms = {4}}}),
            "             0      2      2.000      3.000      4.000    0.000    N/A      N/A\n");
}

TEST(GroupsTest, LateInputsOfAllGroupsAreCounted) {
  const std::string row = GroupsRow({{.bytes = 4, .times_ms = {2}, .inputs = 40, .inputs_late = 3},
                                     {.bytes = 4, .times_ms = {4}, .inputs = 40, .inputs_late = 4}});
  EXPECT_NE(row.find("# late: 7 of 80 inputs"), std::string::npos) << row;
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
  static int Measure(const Options& own, const Sink& sink) {
    SizeResult result;
    result.bytes = 4096;
    result.times_ms = {std::stod(own.group.substr(own.group.rfind('.') + 1)) + 1};
    result.inputs = 25;
    result.inputs_late = 2;
    return sink(ToJson({result}, 0)).empty() ? 0 : 2;
  }
  nlohmann::json Written() const { return nlohmann::json::parse(std::ifstream(options_.json_path), nullptr, false); }

  Options options_;
};

TEST_F(RunGroupsTest, EachGroupHasAProcessAndANameOfItsOwn) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(RunGroups(options_, Measure), 0);
  const std::string table = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(table.find("# late: 6 of 75 inputs"), std::string::npos) << table;
  const nlohmann::json written = Written();
  ASSERT_EQ(written["groups"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(written["groups"][i]["results"][0]["times_ms"][0], static_cast<double>(i + 1));
  }
}

TEST_F(RunGroupsTest, WrongElementsOfOneAreTheStatusOfAll) {
  const auto wrong = [](const Options& own, const Sink& sink) {
    return Measure(own, sink) == 0 && own.group == "job.1" ? 1 : 0;
  };
  EXPECT_EQ(RunGroups(options_, wrong), 1);
  EXPECT_TRUE(Written().contains("groups"));
}

TEST_F(RunGroupsTest, WithoutTheResultsOfOneThereIsNoTable) {
  const auto fails = [](const Options& own, const Sink& sink) { return own.group == "job.2" ? 2 : Measure(own, sink); };
  EXPECT_EQ(RunGroups(options_, fails), 2);
  const auto dies = [](const Options& own, const Sink& sink) {
    return own.group == "job.0" ? std::raise(SIGKILL) : Measure(own, sink);
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunGroups(options_, dies), 2);
  const std::string why = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(why.find("group job.0 was ended by signal 9"), std::string::npos) << why;
  EXPECT_FALSE(std::filesystem::exists(options_.json_path));
}

// What a signal would leave behind.
TEST_F(RunGroupsTest, ResultsHaveNoFilesWhileTheyAreMeasured) {
  std::string empty = ::testing::TempDir() + "/groups_test_XXXXXX";
  ASSERT_NE(::mkdtemp(empty.data()), nullptr);
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", empty.c_str(), 1);
  const auto looks = [&](const Options& own, const Sink& sink) {
    const int status = Measure(own, sink);
    return std::filesystem::is_empty(empty) ? status : 1;
  };
  EXPECT_EQ(RunGroups(options_, looks), 0);
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  std::filesystem::remove_all(empty);
}

}  // namespace
}  // namespace ringway::bench
