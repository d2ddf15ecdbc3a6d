#include "client/ctl/doctor/program_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ringway::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience(60);

// A directory with a program "ringwayd" that is a script.
class ProgramCheckTest : public testing::Test {
 protected:
  ProgramCheckTest() {
    std::string pattern = (fs::temp_directory_path() / "ringway_program_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
  }
  ~ProgramCheckTest() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  std::optional<Status> With(const std::string& script, std::chrono::milliseconds timeout = kPatience) const {
    const std::string path = directory_ + "/ringwayd";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return CheckConfigBy(directory_, "ringwayd", "x.toml", timeout);
  }
  std::string directory_;
};

TEST_F(ProgramCheckTest, AcceptedIsOkAndRefusedIsItsFirstLine) {
  EXPECT_TRUE(With("[ \"$*\" = '--config x.toml --check-config' ]")->ok());
  const std::optional<Status> refused = With("echo 'ringwayd: no master' >&2; echo more; exit 2");
  EXPECT_EQ(refused->code(), Code::kInvalidArgument);
  EXPECT_EQ(refused->text(), "ringwayd: no master");
}

TEST_F(ProgramCheckTest, ProgramThatIsNotThereIsNotAsked) {
  EXPECT_FALSE(CheckConfigBy(directory_, "ringwayd", "x.toml", kPatience).has_value());
}

TEST_F(ProgramCheckTest, HangingProgramIsEndedAndFloodIsCut) {
  EXPECT_EQ(With("exec sleep 600", std::chrono::milliseconds(1))->code(), Code::kTimeout);
  EXPECT_LT(With("head -c 1000000 /dev/zero; exit 2")->text().size(), 10'000U);
}

TEST_F(ProgramCheckTest, ProgramThatHasToBeKilledIsLate) {
  EXPECT_EQ(With("trap '' TERM; exec sleep 600", std::chrono::milliseconds(300))->code(), Code::kTimeout);
}

TEST_F(ProgramCheckTest, ProgramThatCannotRunIsNotAsked) {
  for (const char* code : {"125", "126", "127"}) EXPECT_FALSE(With(std::string("exit ") + code).has_value()) << code;
}

TEST_F(ProgramCheckTest, ProgramThatDiesIsNoProgramThatAccepts) { EXPECT_FALSE(With("kill -9 $$")->ok()); }

TEST(OwnDirectoryTest, IsThatOfThisProgram) { EXPECT_TRUE(fs::is_directory(OwnDirectory())); }

}  // namespace
}  // namespace ringway::ctl
