#include "proto/tls/ledger.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/proto/tls/certificates.h"

namespace ringway::tls {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  std::string Text() const { return TextOf(path_); }
  Ledger::Found Find(const std::string& name) const { return Ledger::Open(authority_.dir()).value().Find(name); }

  const TestAuthority authority_;
  const std::string path_ = authority_.dir() + "/issued";
};

// The soft limit of this process's files, below which it stays for a while.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TEST_F(LedgerTest, FindsAllOfANameAndNoOther) {
  (void)authority_.Issued({.name = "node"});
  std::filesystem::remove(authority_.dir() + "/node.pem");
  std::filesystem::remove(authority_.dir() + "/node.key");
  (void)authority_.Issued({.role = ProcessRole::kOperator, .name = "node"});
  (void)authority_.Issued({.name = "node2"});
  const Ledger::Found found = Find("node");
  ASSERT_EQ(found.issued.size(), 2U);
  EXPECT_EQ(found.issued[0].who, "daemon node");
  EXPECT_EQ(found.issued[1].who, "operator node");
  EXPECT_EQ(found.issued[0].serial.size(), kSerialDigits);
  EXPECT_EQ(found.torn, 0U);
}

TEST_F(LedgerTest, TornLinesAreNobodysAndTheNextBeginsOnItsOwn) {
  const std::string serial(kSerialDigits, 'A');
  Append("AB daemon node\n" + serial + " node\n" + serial + " king node\n" + serial + "B daemon node\n" + serial +
         " daemon no de\n" + std::string(kSerialDigits, 'g') + " daemon node\n" + serial.substr(0, 20));
  (void)authority_.Issued({.name = "node"});
  const Ledger::Found found = Find("node");
  ASSERT_EQ(found.issued.size(), 1U) << Text();
  EXPECT_NE(found.issued[0].serial, serial);
  EXPECT_EQ(found.torn, 7U);
  const auto revoked = Revoke(authority_.dir(), "node");
  ASSERT_TRUE(revoked.ok()) << revoked.status().text();
  EXPECT_NE(revoked.value().find("7 lines"), std::string::npos) << revoked.value();
}

TEST_F(LedgerTest, WriteThatIsCutShortLeavesNothing) {
  (void)authority_.Issued({.name = "first"});
  const std::string before = Text();
  {
    const FileLimit limit(before.size() + 10);
    const Status full = Issue({.dir = authority_.dir(), .out = authority_.dir()}, {.name = "second"});
    EXPECT_EQ(full.code(), Code::kIo) << full.text();
  }
  EXPECT_EQ(Text(), before);
  EXPECT_FALSE(std::filesystem::exists(authority_.dir() + "/second.pem"));
}

}  // namespace
}  // namespace ringway::tls
