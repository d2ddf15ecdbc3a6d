// Disks and people that do something to a journal: it opens as it was acknowledged, or not at all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "tests/master/shell/faulty_vfs.h"
#include "tests/master/shell/journal_fixture.h"
#include "tests/sanitized.h"

namespace ringway {
namespace {

namespace fs = std::filesystem;

using State = std::vector<std::string>;  // serialized groups

constexpr JournalOptions kFaulty{.start_new = false, .vfs = FaultyVfs::kName};

void StoreFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class JournalFaultsTest : public JournalFixture {
 protected:
  static State StateOf(const StoreUser& journal) {
    State state;
    for (const record::Group& group : journal.groups()) state.push_back(group.SerializeAsString());
    return state;
  }
  static State Of(const std::vector<record::Group>& groups) {
    State state;
    for (const record::Group& group : groups) state.push_back(group.SerializeAsString());
    return state;
  }
  // Returns what a start on the files would find; nothing if it is refused.
  std::optional<State> Found() const {
    auto journal = Journal::Open(path_);
    if (!journal.ok()) return std::nullopt;
    return StateOf(StoreUser(std::move(journal).value()));
  }
  // The journal's files at some moment.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(directory_)) files[entry.path()] = FileContents(entry.path());
    return files;
  }
  void Restore(const std::map<std::string, std::string>& files) const {
    for (const auto& entry : fs::directory_iterator(directory_)) fs::remove(entry.path());
    for (const auto& [path, bytes] : files) StoreFile(path, bytes);
  }
  // Returns the files of a master that was killed after two writes: the last one is in the write-ahead log only.
  std::map<std::string, std::string> FilesOfAKilledMaster() {
    const auto journal = Open();
    EXPECT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
    EXPECT_TRUE(journal->Write({GroupOf("b", 2)}).ok());
    return Files();
  }
  // Every file with one thing done to it is refused or as it was. Returns how many were refused.
  int RefusedOrExact(const std::map<std::string, std::string>& files, const std::string& path, const State& state,
                     std::size_t step, const std::function<std::string(std::string, std::size_t)>& spoil) const {
    int refused = 0;
    for (std::size_t at = 0; at < files.at(path).size(); at += step) {
      auto spoilt = files;
      spoilt[path] = spoil(files.at(path), at);
      Restore(spoilt);
      const std::optional<State> found = Found();
      refused += found ? 0 : 1;
      EXPECT_EQ(found.value_or(state), state) << path << " at " << at;
      if (HasFailure()) break;
    }
    return refused;
  }

  const State two_ = Of({GroupOf("a", 1), GroupOf("b", 2)});
};

std::string WithFlippedBit(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
  return bytes;
}
std::string CutAt(std::string bytes, std::size_t at) {
  bytes.resize(at);
  return bytes;
}
constexpr std::size_t kStep = kSanitized ? 997 : 199;  // coprime to the length of fields and pages

// ---------------------------------------------------------------------------------------------- lost files

TEST_F(JournalFaultsTest, PathThatNeverHeldOneStartsANewJournal) {
  const auto journal = Open();
  ASSERT_NE(journal, nullptr);
  EXPECT_TRUE(is_new_);
  EXPECT_EQ(journal->term(), 1u);
}

TEST_F(JournalFaultsTest, MissingOrEmptyJournalIsRefusedWithWhatToDo) {
  { EXPECT_TRUE(Open()->Write({GroupOf("a", 1)}).ok()); }
  for (const bool empty : {true, false}) {
    if (empty) {
      StoreFile(path_, "");
    } else {
      fs::remove(path_);
    }
    for (const char* part : {"missing or empty", "master.db.id", "restore", "--new-journal"}) {
      EXPECT_NE(Refusal().find(part), std::string::npos) << Refusal();
    }
    EXPECT_EQ(fs::exists(path_), empty) << "a refusal creates nothing";
  }
}

TEST_F(JournalFaultsTest, JournalWithoutItsWriteAheadLogIsRefused) {
  auto files = FilesOfAKilledMaster();
  ASSERT_EQ(files.erase(path_ + "-wal"), 1u);
  Restore(files);
  EXPECT_NE(Refusal().find("-wal"), std::string::npos) << Refusal();
  EXPECT_NE(Refusal().find("--new-journal"), std::string::npos) << Refusal();
}

TEST_F(JournalFaultsTest, OlderCopyOrAnotherJournalUnderTheMarkIsRefused) {
  { EXPECT_TRUE(Open()->Write({GroupOf("a", 1)}).ok()); }
  const std::string older = FileContents(path_);
  { EXPECT_TRUE(Open()->Write({GroupOf("a", 2)}).ok()); }
  StoreFile(path_, older);
  EXPECT_NE(Refusal().find("lacks the last 2 changes"), std::string::npos) << Refusal();
  const std::string mark = FileContents(path_ + ".id");
  fs::remove(path_);
  fs::remove(path_ + ".id");
  (void)Open();
  StoreFile(path_ + ".id", mark);
  EXPECT_NE(Refusal().find("is not the one"), std::string::npos) << Refusal();
}

TEST_F(JournalFaultsTest, JournalWithoutAMarkIsOpenedAndGetsOne) {
  { EXPECT_TRUE(Open()->Write({GroupOf("a", 1)}).ok()); }
  fs::remove(path_ + ".id");
  EXPECT_EQ(Found(), Of({GroupOf("a", 1)}));
  EXPECT_TRUE(fs::exists(path_ + ".id"));
}

TEST_F(JournalFaultsTest, NewJournalOnRequestSetsTheOldOneAside) {
  const auto files = FilesOfAKilledMaster();
  Restore(files);
  {
    const auto journal = Open({.start_new = true});
    ASSERT_NE(journal, nullptr);
    EXPECT_TRUE(is_new_);
    EXPECT_TRUE(journal->groups().empty());
  }
  EXPECT_EQ(Found(), State()) << "the next start goes on with it";
  path_ += ".old";
  EXPECT_EQ(Found(), two_) << "the old one is whole";
}

TEST_F(JournalFaultsTest, NewJournalNeverReplacesAnOlderOne) {
  Restore(FilesOfAKilledMaster());
  ASSERT_NE(Open({.start_new = true}), nullptr);
  ASSERT_NE(Open({.start_new = true}), nullptr);
  const std::string journal = path_;
  path_ = journal + ".old.1";
  EXPECT_EQ(Found(), State());
  path_ = journal + ".old";
  EXPECT_EQ(Found(), two_) << "it is the only copy of the groups";
}

TEST_F(JournalFaultsTest, NewJournalIsRefusedWhereAllOldNamesAreTaken) {
  { EXPECT_TRUE(Open()->Write({GroupOf("a", 1)}).ok()); }
  StoreFile(path_ + ".old.id", "");
  for (int i = 1; i < kOldJournalsMax; ++i) StoreFile(path_ + ".old." + std::to_string(i), "");
  const auto journal = Journal::Open(path_, {.start_new = true});
  EXPECT_EQ(journal.status().code(), Code::kIo);
  EXPECT_NE(journal.status().text().find(".old.99 are taken"), std::string::npos) << journal.status().text();
  EXPECT_EQ(Found(), Of({GroupOf("a", 1)})) << "it stays where it is";
}

// ---------------------------------------------------------------------------------------------- damaged files

TEST_F(JournalFaultsTest, FlippedBitInTheDatabaseIsRefusedOrHarmless) {
  FilesOfAKilledMaster();  // and then closed
  EXPECT_GT(RefusedOrExact(Files(), path_, two_, kStep, WithFlippedBit), 0);
}

TEST_F(JournalFaultsTest, FlippedBitInTheWriteAheadLogIsRefusedOrHarmless) {
  const auto files = FilesOfAKilledMaster();
  EXPECT_GT(RefusedOrExact(files, path_ + "-wal", two_, kStep, WithFlippedBit), 0);
}

TEST_F(JournalFaultsTest, FlippedBitInTheMarkIsRefusedOrHarmless) {
  const auto files = FilesOfAKilledMaster();
  RefusedOrExact(files, path_ + ".id", two_, 1 + 16 * kSanitized, WithFlippedBit);
}

TEST_F(JournalFaultsTest, TruncatedFilesAreRefusedOrAsTheyWere) {
  const auto files = FilesOfAKilledMaster();
  EXPECT_GT(RefusedOrExact(files, path_ + "-wal", two_, kStep, CutAt), 0);
  const auto closed = [&] {
    Restore(files);
    EXPECT_EQ(Found(), two_);
    return Files();
  }();
  EXPECT_GT(RefusedOrExact(closed, path_, two_, kStep, CutAt), 0);
}

// ---------------------------------------------------------------------------------------------- disks

// The power fails after each write of a change; of the writes that were not synced any number reaches the disk.
TEST_F(JournalFaultsTest, PowerLossAtAnyWriteKeepsWhatWasAcknowledged) {
  const State one = Of({GroupOf("a", 1)});
  bool acknowledged = false;
  for (std::uint64_t writes = 1; !acknowledged; ++writes) {
    ASSERT_LT(writes, 100u);
    for (std::size_t kept = 0, pending = 0; kept <= pending; ++kept) {
      Restore({});
      FaultyVfs vfs;
      auto journal = Open(kFaulty);
      ASSERT_NE(journal, nullptr);
      ASSERT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
      vfs.DieAfter(writes);
      acknowledged = journal->Write({GroupOf("b", 2)}).ok();
      vfs.DieAfter(0);
      journal.reset();
      pending = vfs.pending();
      vfs.LosePower(kept);
      const std::optional<State> found = Found();
      ASSERT_TRUE(found) << Refusal();
      ASSERT_TRUE(*found == two_ || (*found == one && !acknowledged)) << writes << " writes, " << kept << " kept";
    }
  }
}

TEST_F(JournalFaultsTest, DiskThatLiesAboutASyncIsNoticedAtTheNextStart) {
  FaultyVfs vfs;
  auto journal = Open(kFaulty);
  ASSERT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
  vfs.Lie();
  ASSERT_TRUE(journal->Write({GroupOf("b", 2)}).ok());
  vfs.DieAfter(0);
  journal.reset();
  vfs.LosePower(0);
  EXPECT_NE(Refusal().find("lacks the last 1 change"), std::string::npos) << Refusal();
}

// At each of its writes and syncs.
TEST_F(JournalFaultsTest, FailedWriteSaysSoAndTheNextSucceeds) {
  using Call = FaultyVfs::Call;
  for (const auto& [call, code] : {std::pair(Call::kWrite, SQLITE_FULL), std::pair(Call::kWrite, SQLITE_IOERR_WRITE),
                                   std::pair(Call::kSync, SQLITE_IOERR_FSYNC)}) {
    bool happened = true;
    for (std::uint64_t later = 0; happened; ++later) {
      ASSERT_LT(later, 100u);
      Restore({});
      FaultyVfs vfs;
      {
        auto journal = Open(kFaulty);
        ASSERT_NE(journal, nullptr);
        vfs.Fail(call, later, code);
        const Status status = journal->Write({GroupOf("a", 1)});
        happened = vfs.failed();
        ASSERT_EQ(status.ok(), !happened) << "call " << later << ": " << status.text();
        vfs.Forgive();
        ASSERT_EQ(status.text().find(path_) != std::string::npos, happened) << status.text();
        ASSERT_TRUE(journal->Write({GroupOf("b", 2)}).ok());
      }
      EXPECT_EQ(Found(), happened ? Of({GroupOf("b", 2)}) : two_);
    }
  }
}

// Cannot write the mark while JOURNAL.full exists.
Status WriteMarkUnlessFull(const std::string& journal, const JournalMark& mark) {
  return fs::exists(journal + ".full") ? Status(Code::kIo, "disk full") : WriteMark(journal, mark);
}

TEST_F(JournalFaultsTest, MarkThatCannotBeWrittenIsReportedUntilACheckHasWrittenIt) {
  const auto journal = Open({.write_mark = WriteMarkUnlessFull});
  ASSERT_NE(journal, nullptr);
  StoreFile(path_ + ".full", "");
  EXPECT_TRUE(journal->Write({GroupOf("a", 1)}).ok()) << "the change is written";
  for (const char* part : {"disk full", "changes of groups are written"}) {
    EXPECT_NE(journal->Check().text().find(part), std::string::npos) << journal->Check().text();
  }
  EXPECT_EQ(ReadMark(path_).value()->changes, 1u);
  fs::remove(path_ + ".full");
  EXPECT_TRUE(journal->Check().ok());
  EXPECT_EQ(ReadMark(path_).value()->changes, 2u);
}

TEST_F(JournalFaultsTest, FailedWriteSaysThatNoGroupChanges) {
  FaultyVfs vfs;
  const auto journal = Open(kFaulty);
  ASSERT_NE(journal, nullptr);
  vfs.Fail(FaultyVfs::Call::kWrite, 0, SQLITE_FULL);
  const Status status = journal->Write({GroupOf("a", 1)});
  EXPECT_NE(status.text().find("no group changes"), std::string::npos) << status.text();
  vfs.Forgive();
}

// ---------------------------------------------------------------------------------------------- under a running master

TEST_F(JournalFaultsTest, FileThatIsDeletedUnderItIsNoticedUntilItIsBack) {
  const auto journal = Open();
  ASSERT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
  ASSERT_TRUE(journal->Check().ok());
  for (const std::string suffix : {"", "-wal", ".id"}) {
    fs::rename(path_ + suffix, path_ + ".away");
    const Status status = journal->Check();
    EXPECT_EQ(status.code(), Code::kIo);
    for (const std::string& part : {path_ + suffix + " was deleted", std::string("--new-journal")}) {
      EXPECT_NE(status.text().find(part), std::string::npos) << status.text();
    }
    EXPECT_FALSE(journal->Write({GroupOf("b", 2)}).ok());
    fs::rename(path_ + ".away", path_ + suffix);
    EXPECT_TRUE(journal->Check().ok());
  }
  EXPECT_TRUE(journal->Write({GroupOf("b", 2)}).ok());
}

TEST_F(JournalFaultsTest, FileThatIsReplacedOrTruncatedUnderItIsNoticed) {
  const auto journal = Open();
  ASSERT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
  const std::string bytes = FileContents(path_);
  fs::rename(path_, path_ + ".away");
  StoreFile(path_, bytes);
  EXPECT_NE(journal->Check().text().find("was replaced"), std::string::npos) << journal->Check().text();
  fs::rename(path_ + ".away", path_);
  ASSERT_TRUE(journal->Check().ok());
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_NE(journal->Check().text().find("was truncated"), std::string::npos) << journal->Check().text();
}

// Does to JOURNAL what JOURNAL.strike says, in the middle of a write.
Status WriteMarkAfterStrike(const std::string& journal, const JournalMark& mark) {
  if (fs::exists(journal + ".strike")) {
    const std::string suffix = FileContents(journal + ".strike");
    fs::rename(journal + suffix, journal + ".away");
    if (suffix != "-wal") StoreFile(journal + suffix, FileContents(journal + ".away"));
    fs::remove(journal + ".strike");
  }
  return WriteMark(journal, mark);
}

TEST_F(JournalFaultsTest, FileThatIsDeletedOrReplacedDuringAWriteIsNoticed) {
  const auto journal = Open({.write_mark = WriteMarkAfterStrike});
  ASSERT_NE(journal, nullptr);
  for (const std::string suffix : {"", "-wal", ".id"}) {
    StoreFile(path_ + ".strike", suffix);
    EXPECT_TRUE(journal->Write({GroupOf("a", 1)}).ok());
    const std::string wanted = path_ + suffix + (suffix == "-wal" ? " was deleted" : " was replaced");
    EXPECT_NE(journal->Check().text().find(wanted), std::string::npos) << journal->Check().text();
    fs::rename(path_ + ".away", path_ + suffix);
    EXPECT_TRUE(journal->Check().ok());
  }
}

// Empties the file as logrotate's copytruncate does, at each of the write's own writes and syncs; its later writes fill
// the file up again. It happens once while the log grows, and once after a checkpoint, when the log is written from its
// beginning.
TEST_F(JournalFaultsTest, FileThatIsEmptiedDuringAWriteIsNoticed) {
  for (const bool grows : {true, false}) {
    for (const auto call : {FaultyVfs::Call::kWrite, FaultyVfs::Call::kSync}) {
      bool happened = true;
      for (std::uint64_t later = 0; happened; ++later) {
        ASSERT_LT(later, 100u);
        Restore({});
        FaultyVfs vfs;
        const auto journal = Open(kFaulty);
        ASSERT_NE(journal, nullptr);
        constexpr std::size_t kCheckpointBytes = 5 << 20;  // of over 1000 pages
        if (!grows) {
          ASSERT_TRUE(journal->Write({GroupOf(std::string(kCheckpointBytes, 'x'), 1)}).ok());
        }
        vfs.Empty(call, later);
        const Status status = journal->Write({GroupOf("a", 1)});
        happened = vfs.failed();
        vfs.Forgive();
        ASSERT_EQ(journal->Check().ok(), !happened) << "call " << later << ": " << status.text();
        ASSERT_EQ(journal->Check().text().find("was truncated") != std::string::npos, happened);
        ASSERT_EQ(journal->Write({GroupOf("b", 2)}).ok(), !happened);
      }
    }
  }
}

// Past several checkpoints, which SQLite makes each 1000 pages.
TEST_F(JournalFaultsTest, FilesThatOnlySqliteChangesRaiseNoAlarm) {
  const auto journal = Open();
  ASSERT_NE(journal, nullptr);
  std::string big(1 << 20, 'x');
  for (const std::size_t bytes : {big.size(), std::size_t{1}, big.size(), std::size_t{1}}) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(journal->Write({GroupOf(big.substr(0, bytes), i)}).ok());
      ASSERT_TRUE(journal->Check().ok()) << journal->Check().text();
    }
  }
}

}  // namespace
}  // namespace ringway
