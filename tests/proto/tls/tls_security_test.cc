#include "proto/tls/tls_security.h"

#include <gtest/gtest.h>

#include "tests/proto/tls/certificates.h"

namespace ringway::tls {
namespace {

// What a reload does with the list where it takes nothing else.
class RevocationReloadTest : public ::testing::Test {
 protected:
  RevocationReloadTest() {
    (void)authority_.Issued({.name = "lost"});
    EXPECT_TRUE(Revoke(authority_.dir(), "lost").ok());
    held_ = security_.credentials();
  }
  std::string Reload() { return security_.Reload(files_).text(); }
  std::size_t Revoked() const { return security_.credentials()->revocations()->count(); }

  const TestAuthority authority_;
  const std::string list_ = RevocationsBeside(authority_.dir() + "/ca.pem");
  const CredentialFiles files_ = authority_.Issued({.name = "node"});
  TlsSecurity security_{Credentials::Load(files_).value()};
  std::shared_ptr<Credentials> held_;
};

TEST_F(RevocationReloadTest, ListIsTakenThoughTheCertificateIsBad) {
  ASSERT_EQ(Revoked(), 0U);
  Overwrite(files_.cert, "no certificate");
  const std::string text = Reload();
  EXPECT_NE(text.find("no certificate"), std::string::npos) << text;
  EXPECT_NE(text.find("crl.pem is in use"), std::string::npos) << text;
  EXPECT_EQ(Revoked(), 1U);
  EXPECT_EQ(security_.credentials(), held_);
}

TEST_F(RevocationReloadTest, ListIsTakenThatRevokesTheProcessItself) {
  ASSERT_TRUE(Revoke(authority_.dir(), "node").ok());
  const std::string text = Reload();
  EXPECT_NE(text.find("is revoked"), std::string::npos) << text;
  EXPECT_EQ(Revoked(), 2U);
}

TEST_F(RevocationReloadTest, ListIsTakenThoughTheFilesAreOfAnother) {
  const std::string text = security_.Reload(authority_.Issued({.name = "other"})).text();
  EXPECT_NE(text.find("restart it"), std::string::npos) << text;
  EXPECT_EQ(Revoked(), 1U);
}

TEST_F(RevocationReloadTest, ListThatIsMissingOrOfAStrangerLeavesTheOneInUse) {
  ASSERT_EQ(Reload(), "");
  ASSERT_EQ(Revoked(), 1U);
  Overwrite(files_.cert, "no certificate");
  std::filesystem::remove(list_);
  EXPECT_EQ(Reload().find("crl.pem"), std::string::npos);
  EXPECT_EQ(Revoked(), 1U);
  const TestAuthority stranger;
  (void)stranger.Issued({.name = "n"});
  (void)stranger.Issued({.name = "m"});
  ASSERT_TRUE(Revoke(stranger.dir(), "n").ok());
  ASSERT_TRUE(Revoke(stranger.dir(), "m").ok());
  Overwrite(files_.ca, TextOf(stranger.dir() + "/ca.pem"));
  Overwrite(list_, TextOf(RevocationsBeside(stranger.dir() + "/ca.pem")));
  EXPECT_NE(Reload().find("not signed"), std::string::npos);
  EXPECT_EQ(Revoked(), 1U);
}

}  // namespace
}  // namespace ringway::tls
