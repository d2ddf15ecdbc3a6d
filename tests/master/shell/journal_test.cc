#include "master/shell/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ringway {
namespace {

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "journal_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/master.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Journal> Open() {
    auto journal = Journal::Open(path_);
    EXPECT_TRUE(journal.ok()) << journal.status().text();
    return journal.ok() ? std::move(journal).value() : nullptr;
  }
  std::string Refusal() const {
    const auto journal = Journal::Open(path_);
    return journal.ok() ? "" : journal.status().text();
  }
  static record::Group GroupOf(const std::string& name, std::uint64_t epoch) {
    record::Group group;
    group.set_name(name);
    group.mutable_current()->set_epoch(epoch);
    group.add_members()->mutable_info()->set_peer_id(7);
    return group;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(JournalTest, EveryLifeHasAHigherTerm) {
  for (std::uint32_t life = 1; life <= 3; ++life) EXPECT_EQ(Open()->term(), life);
}

TEST_F(JournalTest, GroupsAreAsTheLastLifeLeftThem) {
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Write({GroupOf("a", 1), GroupOf("b", 2), GroupOf("c", 3)}).ok());
    record::Group gone;
    gone.set_name("b");
    ASSERT_TRUE(journal->Write({GroupOf("a", 9), gone}).ok());
  }
  const auto journal = Open();
  ASSERT_EQ(journal->groups().size(), 2u);
  EXPECT_EQ(journal->groups()[0].SerializeAsString(), GroupOf("a", 9).SerializeAsString());
  EXPECT_EQ(journal->groups()[1].SerializeAsString(), GroupOf("c", 3).SerializeAsString());
}

TEST_F(JournalTest, SecondMasterOnTheFileIsRefused) {
  const auto journal = Open();
  EXPECT_NE(Refusal().find("in use by another ringway-master"), std::string::npos) << Refusal();
  EXPECT_TRUE(journal->Write({GroupOf("a", 1)}).ok()) << "the first goes on";
}

TEST_F(JournalTest, NobodyElseMayReadIt) {
  (void)Open();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(JournalTest, FilesOfOthersAreLeftAlone) {
  const std::string text = "this is somebody's letter, and long enough to be taken for a database's header page";
  std::ofstream(path_) << text << text;
  EXPECT_NE(Refusal().find("is not a journal"), std::string::npos) << Refusal();
  std::string kept;
  std::getline(std::ifstream(path_), kept);
  EXPECT_EQ(kept, text + text);
}

TEST_F(JournalTest, PathThatCannotBeWrittenIsNamed) {
  path_ = directory_ + "/missing/master.db";
  EXPECT_NE(Refusal().find(path_), std::string::npos) << Refusal();
}

// A limit on the size of files stands for a disk that is full.
TEST_F(JournalTest, FailedWriteChangesNothingAndTheNextMaySucceed) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignore = std::signal(SIGXFSZ, SIG_IGN);
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
    record::Group large = GroupOf("b", 2);
    for (int i = 0; i < 1000; ++i) large.add_members()->mutable_info()->set_name(std::string(1000, 'x'));
    const struct rlimit full { 64 << 10, before.rlim_max };
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    const Status failed = journal->Write({GroupOf("a", 5), large});
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(failed.code(), Code::kIo);
    EXPECT_NE(failed.text().find(path_), std::string::npos) << failed.text();
    EXPECT_TRUE(journal->Write({GroupOf("c", 3)}).ok());
  }
  std::signal(SIGXFSZ, ignore);
  const auto journal = Open();
  ASSERT_EQ(journal->groups().size(), 2u);
  EXPECT_EQ(journal->groups()[0].current().epoch(), 1u);
  EXPECT_EQ(journal->groups()[1].name(), "c");
}

}  // namespace
}  // namespace ringway
