#include "master/shell/journal.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/master/shell/journal_fixture.h"

namespace ringway {
namespace {

class JournalTest : public JournalFixture {};

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

TEST_F(JournalTest, JournalOfVersionOneIsConvertedWithItsTermAndGroups) {
  {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db,
                           "PRAGMA journal_mode = WAL; PRAGMA application_id = 0x52574a31; PRAGMA user_version = 1;"
                           "CREATE TABLE term (term INTEGER NOT NULL); INSERT INTO term VALUES (41);"
                           "CREATE TABLE groups (name BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    const std::string record = GroupOf("a", 5).SerializeAsString();
    sqlite3_stmt* insert = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(db, "INSERT INTO groups VALUES (CAST('a' AS BLOB), ?)", -1, &insert, nullptr),
              SQLITE_OK);
    sqlite3_bind_blob(insert, 1, record.data(), static_cast<int>(record.size()), SQLITE_STATIC);
    ASSERT_EQ(sqlite3_step(insert), SQLITE_DONE);
    sqlite3_finalize(insert);
    sqlite3_close(db);
  }
  for (const std::uint32_t term : {42U, 43U}) {
    const auto journal = Open();
    ASSERT_NE(journal, nullptr);
    EXPECT_EQ(journal->term(), term);
    EXPECT_FALSE(is_new_);
    ASSERT_EQ(journal->groups().size(), 1u);
    EXPECT_EQ(journal->groups()[0].SerializeAsString(), GroupOf("a", 5).SerializeAsString());
  }
}

TEST_F(JournalTest, DatabaseOfAnotherProgramIsLeftAlone) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE letters (text)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_NE(Refusal().find("is not a journal"), std::string::npos) << Refusal();
}

}  // namespace
}  // namespace ringway
