#include "client/ctl/watch/top.h"

#include <gmock/gmock.h>

#include "tests/client/ctl/watch_status.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

// The names of the rows, from above.
std::vector<std::string> Order(const std::string& picture) {
  std::vector<std::string> out;
  std::istringstream lines(picture);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string group, rank, name;
    if (words >> group >> rank >> name && group == "job") out.push_back(name);
  }
  return out;
}

class TopTest : public testing::Test {
 protected:
  std::string Picture(const TopView& view = {}) const {
    const auto picture = TopPicture(status_.dump(), "", view);
    EXPECT_TRUE(picture.ok()) << picture.status().text();
    return picture.ok() ? picture.value() : "";
  }
  json& peer(std::size_t i) { return status_["groups"][0]["peers"][i]; }

  json status_ = HealthyStatus();
};

TEST_F(TopTest, WhoHurtsTheOthersIsFirst) {
  EXPECT_EQ(Order(Picture()), (std::vector<std::string>{"a", "b", "c"}));
  peer(1)["online"] = false;
  EXPECT_EQ(Order(Picture()), (std::vector<std::string>{"b", "a", "c"}));
  peer(0)["live"]["wait"] = Wait("0:7", 2000, {"c"});
  EXPECT_EQ(Order(Picture()), (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_THAT(Picture(), HasSubstr("a waits for it"));
  EXPECT_EQ(Order(Picture({.sort = TopSort::kName})), (std::vector<std::string>{"a", "b", "c"}));
  peer(1)["live"]["sent_mbit"] = 99.0;
  EXPECT_EQ(Order(Picture({.sort = TopSort::kSent})).front(), "b");
}

TEST_F(TopTest, ScreenShowsAsManyRowsAsItHasAndWhatIsBelow) {
  const std::string picture = Picture({.rows_max = 1, .width = 40, .first = 1, .is_terminal = true});
  EXPECT_EQ(Order(picture), (std::vector<std::string>{"b"}));
  EXPECT_THAT(picture, HasSubstr("1 more below"));
  std::istringstream lines(picture);
  for (std::string line; std::getline(lines, line);) {
    for (const char* code : {"\x1b[1m", "\x1b[7m", "\x1b[0m"}) {
      if (const auto at = line.find(code); at != std::string::npos) line.erase(at, 4);
    }
    EXPECT_LE(line.size(), 40U) << line;
  }
}

TEST_F(TopTest, TextHasNoCodesAndExplainsTheColumns) {
  peer(0)["name"] = "a\x1b[31m";
  const std::string picture = Picture();
  EXPECT_THAT(picture, Not(HasSubstr("\x1b")));
  EXPECT_THAT(picture, HasSubstr("late ms   by how much it submits after the first"));
  EXPECT_THAT(picture, HasSubstr("master  1 groups, 3 peers  10.0 operations/s  150 Mbit/s sent"));
}

TEST_F(TopTest, AnUnknownGroupIsAnErrorThatNamesThoseThatAreThere) {
  EXPECT_TRUE(FindGroup(status_, "job").ok());
  const Status unknown = FindGroup(status_, "jbo");
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_EQ(unknown.text(), "there is no group jbo here: there are job");
  EXPECT_THAT(FindGroup(json::object(), "job").text(), HasSubstr("there is none at all"));
  for (int i = 0; i < 30; ++i) status_["groups"].push_back({{"name", std::to_string(i) + "\x1b"}});
  EXPECT_THAT(FindGroup(status_, "jbo").text(), HasSubstr(", 18? and 11 more"));
}

TEST_F(TopTest, GroupIsFilteredAndNoStatusIsAnError) {
  EXPECT_TRUE(Order(TopPicture(status_.dump(), "other", {}).value()).empty());
  EXPECT_EQ(TopPicture("{}", "", {}).status().code(), Code::kProtocol);
  EXPECT_EQ(TopPicture("nothing", "", {}).status().code(), Code::kProtocol);
  EXPECT_TRUE(TopPicture(R"({"daemon": 3, "groups": [1, {"peers": 7}, {"members": "x"}]})", "", {}).ok());
}

}  // namespace
}  // namespace ringway::ctl
