#include "proto/tls/revocations.h"

#include <thread>
#include <vector>

#include "tests/proto/tls/certificates.h"

namespace ringway::tls {
namespace {

std::string ListOf(const TestAuthority& authority) { return RevocationsBeside(authority.dir() + "/ca.pem"); }

TEST(RevocationsTest, AllThatAreRevokedAtOnceAreOnTheList) {
  const TestAuthority authority;
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    names.push_back("n" + std::to_string(i));
    (void)authority.Issued({.name = names.back()});
  }
  std::vector<std::thread> threads;
  for (const std::string& name : names) {
    threads.emplace_back([&] { EXPECT_TRUE(Revoke(authority.dir(), name).ok()) << name; });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lists = ReadRevocations(ListOf(authority));
  ASSERT_TRUE(lists.ok()) << lists.status().text();
  EXPECT_EQ(sk_X509_REVOKED_num(X509_CRL_get_REVOKED(lists.value().front().get())), 12);
}

// While a new authority replaces the old, hosts have the lists of both.
TEST(RevocationsTest, ListsOfTwoAuthoritiesAreTogetherOnHostsAndNotWhereTheyAreMade) {
  const TestAuthority old_one;
  const TestAuthority new_one;
  for (const TestAuthority* authority : {&old_one, &new_one}) {
    (void)authority->Issued({.name = "lost"});
    (void)authority->Issued({.name = "good"});
    ASSERT_TRUE(Revoke(authority->dir(), "lost").ok());
  }
  const CredentialFiles of_old = FilesOf(old_one.dir(), "good");
  const std::string host = new_one.dir() + "/host";
  std::filesystem::create_directory(host);
  const std::string both = TextOf(ListOf(old_one)) + TextOf(ListOf(new_one));
  Overwrite(host + "/ca.pem", TextOf(new_one.dir() + "/ca.pem") + TextOf(of_old.ca));
  Overwrite(host + "/crl.pem", both);
  const auto loaded = Credentials::Load({.ca = host + "/ca.pem", .cert = of_old.cert, .key = of_old.key});
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  EXPECT_EQ(loaded.value()->revocations()->count(), 2U);
  Overwrite(ListOf(old_one), both);
  const auto mixed = Revoke(old_one.dir(), "good");
  EXPECT_NE(mixed.status().text().find("several lists"), std::string::npos) << mixed.status().text();
  EXPECT_EQ(TextOf(ListOf(old_one)), both);
}

TEST(RevocationsTest, LinkToNothingIsNoEmptyList) {
  const TestAuthority authority;
  const CredentialFiles files = authority.Issued({.name = "n"});
  std::filesystem::create_symlink("nowhere", ListOf(authority));
  const auto loaded = Credentials::Load(files);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().text().find("cannot read"), std::string::npos) << loaded.status().text();
  EXPECT_FALSE(Revoke(authority.dir(), "n").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(ListOf(authority)));
}

}  // namespace
}  // namespace ringway::tls
