#include "daemon/runtime/flight_deck.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proto/flight/reader.h"
#include "tests/proto/flight/images.h"

namespace ringway::daemon {
namespace {

namespace fs = std::filesystem;

class FlightDeckTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ringway-test-XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ / "flight";
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string BytesAt(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static Result<flight::Log> LogAt(const fs::path& path) {
    const std::string image = BytesAt(path);
    return flight::Read(std::as_bytes(std::span(image)));
  }
  static std::string Image(unsigned number) { return flight::MakeImage("d" + std::to_string(number), {}, {}); }
  static flight::Record Submitted(std::uint64_t seq) {
    flight::Record record{};
    record.kind = flight::Kind::kSubmitted;
    record.self = 1;
    record.seq = seq;
    return record;
  }

  fs::path folder_;
  std::string path_;
  std::vector<FlightDump> dumps_;
};

TEST_F(FlightDeckTest, TheFileHasTheRecordsWhileTheDaemonRuns) {
  auto memory = FlightMemory::Open(path_);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  FlightDeck deck(std::move(memory).value(), {.daemon = "d"}, [](FlightDump) {});
  deck.recorder().Add(Submitted(4));
  const auto log = LogAt(path_);
  ASSERT_TRUE(log.ok()) << log.status().text();
  ASSERT_EQ(log.value().records.size(), 1U);
  EXPECT_EQ(log.value().records[0].seq, 4U);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(FlightDeckTest, TheNextDaemonKeepsTheFileOfTheOneBefore) {
  for (const std::uint64_t seq : {1, 2, 3}) {
    auto memory = FlightMemory::Open(path_);
    ASSERT_TRUE(memory.ok()) << memory.status().text();
    FlightDeck deck(std::move(memory).value(), {.daemon = "d"}, [](FlightDump) {});
    deck.recorder().Add(Submitted(seq));
  }
  EXPECT_EQ(LogAt(path_).value().records.at(0).seq, 3U);
  EXPECT_EQ(LogAt(path_ + ".old").value().records.at(0).seq, 2U);
}

TEST_F(FlightDeckTest, AnImageWithoutRecordsReplacesNoneThatHasSome) {
  for (const std::uint64_t seq : {1, 0, 0, 0}) {
    auto memory = FlightMemory::Open(path_);
    ASSERT_TRUE(memory.ok()) << memory.status().text();
    FlightDeck deck(std::move(memory).value(), {.daemon = "d"}, [](FlightDump) {});
    if (seq != 0) deck.recorder().Add(Submitted(seq));
  }
  EXPECT_TRUE(LogAt(path_).value().records.empty());
  EXPECT_EQ(LogAt(path_ + ".old").value().records.at(0).seq, 1U);
}

TEST_F(FlightDeckTest, AFileThatADaemonWritesToIsRefusedToAnother) {
  auto first = FlightMemory::Open(path_);
  ASSERT_TRUE(first.ok()) << first.status().text();
  FlightDeck deck(std::move(first).value(), {.daemon = "d"}, [](FlightDump) {});
  EXPECT_EQ(FlightMemory::Open(path_).status().code(), Code::kInvalidArgument);
  deck.recorder().Add(Submitted(1));
  EXPECT_EQ(LogAt(path_).value().records.size(), 1U);
  EXPECT_FALSE(fs::exists(path_ + ".old"));
}

TEST_F(FlightDeckTest, AFormerImageOfAnotherKindIsLeftAlone) {
  std::ofstream(path_ + ".old") << "something of somebody";
  for (const Code code : {Code::kOk, Code::kInvalidArgument}) {
    auto memory = FlightMemory::Open(path_);
    ASSERT_EQ(memory.status().code(), code) << memory.status().text();
    if (!memory.ok()) continue;
    FlightDeck deck(std::move(memory).value(), {.daemon = "d"}, [](FlightDump) {});
    deck.recorder().Add(Submitted(1));
  }
  EXPECT_EQ(BytesAt(path_ + ".old"), "something of somebody");
  EXPECT_EQ(LogAt(path_).value().records.size(), 1U);
}

TEST_F(FlightDeckTest, AFileOfAnotherKindIsLeftAlone) {
  for (const std::string& foreign : {std::string("something of somebody"), std::string(16, '\0')}) {
    std::ofstream(path_) << foreign;
    EXPECT_EQ(FlightMemory::Open(path_).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(BytesAt(path_), foreign);
  }
  const std::string link = folder_ / "link";
  fs::create_symlink(path_, link);
  EXPECT_EQ(FlightMemory::Open(link).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FlightMemory::Open(folder_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FlightMemory::Open(folder_ / "absent" / "flight").status().code(), Code::kIo);
}

TEST_F(FlightDeckTest, ACheckChangesNothingAndFindsWhatAStartWould) {
  EXPECT_TRUE(FlightMemory::Check(path_).ok());
  EXPECT_FALSE(fs::exists(path_));
  auto memory = FlightMemory::Open(path_);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(FlightMemory::Check(path_).ok()) << "a daemon runs";
  std::ofstream(path_ + ".old") << "something of somebody";
  EXPECT_NE(FlightMemory::Check(path_).text().find(".old is no file of a flight recorder"), std::string::npos);
  const std::string foreign = folder_ / "foreign";
  std::ofstream(foreign) << "something of somebody";
  EXPECT_EQ(FlightMemory::Check(foreign).code(), Code::kInvalidArgument);
  EXPECT_EQ(FlightMemory::Check(folder_).code(), Code::kInvalidArgument);
}

TEST_F(FlightDeckTest, EachCauseDumpsOnceInAWhileInAGroup) {
  auto memory = FlightMemory::Open("");
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  FlightDeck deck(std::move(memory).value(), {.daemon = "d"},
                  [&](FlightDump dump) { dumps_.push_back(std::move(dump)); });
  deck.recorder().Add(Submitted(1));
  TimePoint now{std::chrono::seconds(1)};
  deck.Dump(DumpCause::kAbort, "g", now);
  deck.Dump(DumpCause::kAbort, "g", now + FlightDeck::kPause - Duration(1));
  EXPECT_EQ(dumps_.size(), 1U);
  deck.Dump(DumpCause::kStuck, "g", now);
  deck.Dump(DumpCause::kAbort, "other", now);
  deck.Dump(DumpCause::kAbort, "g", now + FlightDeck::kPause);
  ASSERT_EQ(dumps_.size(), 4U);
  const auto log = flight::Read(std::as_bytes(std::span(dumps_[3].image)));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log.value().records.size(), 1U);
}

TEST_F(FlightDeckTest, DumpsGoIntoABoundedNumberOfFiles) {
  DumpFiles files(path_);
  for (unsigned i = 0; i < DumpFiles::kCount + 2; ++i) {
    const auto path = files.Write({.cause = DumpCause::kAbort, .image = Image(i)});
    ASSERT_TRUE(path.ok()) << path.status().text();
    EXPECT_EQ(BytesAt(path.value()), Image(i));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), static_cast<std::ptrdiff_t>(DumpFiles::kCount));
  EXPECT_EQ(DumpFiles("").Write({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DumpFiles(folder_ / "absent" / "flight").Write({}).status().code(), Code::kIo);
}

TEST_F(FlightDeckTest, DumpsOfTheNextDaemonReplaceTheOldestFirst) {
  const auto write = [&](unsigned number) { return DumpFiles(path_).Write({.image = Image(number)}).value(); };
  for (unsigned i = 1; i <= DumpFiles::kCount; ++i) EXPECT_EQ(write(i), path_ + "." + std::to_string(i));
  for (unsigned i = 1; i <= DumpFiles::kCount; ++i) {
    const auto age = std::chrono::hours(i == 5 ? 100 : i);
    fs::last_write_time(path_ + "." + std::to_string(i), fs::file_time_type::clock::now() - age);
  }
  EXPECT_EQ(write(9), path_ + ".5");
  EXPECT_EQ(write(10), path_ + ".8");
}

TEST_F(FlightDeckTest, WhatIsNoDumpIsNotOverwritten) {
  std::ofstream(path_ + ".1") << "something of somebody";
  DumpFiles files(path_);
  for (unsigned i = 0; i < 2 * DumpFiles::kCount; ++i) ASSERT_TRUE(files.Write({.image = Image(i)}).ok());
  EXPECT_EQ(BytesAt(path_ + ".1"), "something of somebody");
  for (unsigned i = 2; i <= DumpFiles::kCount; ++i) std::ofstream(path_ + "." + std::to_string(i)) << "and more";
  EXPECT_EQ(files.Write({.image = Image(0)}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringway::daemon
