// A journal in a directory of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "master/shell/journal.h"
#include "tests/master/shell/store_user.h"

namespace ringway {

class JournalFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "journal_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/master.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<StoreUser> Open(const JournalOptions& options = {}) {
    auto journal = Journal::Open(path_, options);
    EXPECT_TRUE(journal.ok()) << journal.status().text();
    if (!journal.ok()) return nullptr;
    is_new_ = journal.value()->is_new();
    return std::make_unique<StoreUser>(std::move(journal).value());
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
  bool is_new_ = false;  // what Open found
};

}  // namespace ringway
