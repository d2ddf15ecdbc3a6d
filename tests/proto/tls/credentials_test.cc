#include "proto/tls/credentials.h"

#include <sys/stat.h>

#include "proto/tls/tls_security.h"
#include "tests/proto/tls/certificates.h"

namespace ringway::tls {
namespace {

using std::chrono::days;

void ExpectRefused(const CredentialFiles& files, const std::string& word,
                   CredentialFault kind = CredentialFault::kFiles) {
  CredentialFault fault = CredentialFault::kNone;
  const auto loaded = Credentials::Load(files, &fault);
  ASSERT_FALSE(loaded.ok()) << word;
  EXPECT_EQ(fault, kind) << word;
  EXPECT_EQ(loaded.status().code(), Code::kInvalidArgument);
  EXPECT_NE(loaded.status().text().find(word), std::string::npos) << loaded.status().text();
}

// A moment ago it had all of them.
void ExpectDaysLeft(const Credentials& credentials, days whole) {
  EXPECT_GE(DaysUntil(credentials.ends()), whole.count() - 1);
  EXPECT_LE(DaysUntil(credentials.ends()), whole.count());
}

TEST(IdentityTest, UriRoundTripsAndNothingElseIsOne) {
  for (const ProcessRole role : {ProcessRole::kMaster, ProcessRole::kDaemon, ProcessRole::kOperator}) {
    const Identity identity{.role = role, .name = "node-1.site_b"};
    EXPECT_EQ(ParseIdentityUri(ToUri(identity)), identity);
  }
  for (const char* text : {"", "ringway://", "ringway://daemon", "ringway://daemon/", "ringway://king/x",
                           "http://daemon/x", "ringway://daemon/a/b", "ringway://daemon/.a", "ringway://daemon/-a",
                           "ringway://daemon/a b", "RINGWAY://daemon/a", "ringway://daemon/\xc3\xa4"}) {
    EXPECT_EQ(ParseIdentityUri(text), std::nullopt) << text;
  }
  EXPECT_TRUE(IsIdentityName(std::string(63, 'a')));
  EXPECT_FALSE(IsIdentityName(std::string(64, 'a')));
}

TEST(CredentialsTest, LoadsWhatTheAuthorityIssues) {
  const TestAuthority authority;
  CredentialFault fault = CredentialFault::kFiles;
  const auto loaded = Credentials::Load(authority.Issued({.role = ProcessRole::kMaster, .name = "m"}), &fault);
  EXPECT_EQ(fault, CredentialFault::kNone);
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  EXPECT_EQ(loaded.value()->self(), (Identity{.role = ProcessRole::kMaster, .name = "m"}));
  ExpectDaysLeft(*loaded.value(), kCertificateDays);
}

TEST(CredentialsTest, EndsWithItsAuthority) {
  std::string dir = (std::filesystem::temp_directory_path() / "ringway_short_XXXXXX").string();
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  ASSERT_TRUE(InitAuthority(dir, ValidFor(days(20))).ok());
  ASSERT_TRUE(Issue({.dir = dir, .out = dir}, {.role = ProcessRole::kDaemon, .name = "d"}).ok());
  const auto loaded = Credentials::Load(FilesOf(dir, "d"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  ExpectDaysLeft(*loaded.value(), days(20));
  std::filesystem::remove_all(dir);
}

TEST(CredentialsTest, RefusesWhatCannotBeUsedAndSaysWhy) {
  const TestAuthority authority;
  const TestAuthority stranger;
  const CredentialFiles good = authority.Issued({.name = "good"});
  ExpectRefused({.ca = good.ca + "x", .cert = good.cert, .key = good.key}, "ca.pemx");
  ExpectRefused({.ca = good.ca, .cert = good.cert + "x", .key = good.key}, "good.pemx");
  ExpectRefused({.ca = good.ca, .cert = good.cert, .key = good.key + "x"}, "good.keyx");
  ExpectRefused({.ca = good.ca, .cert = good.key, .key = good.key}, "no certificate");
  ExpectRefused({.ca = good.ca, .cert = good.cert, .key = good.cert}, "every user", CredentialFault::kKeyExposed);
  ExpectRefused({.ca = good.ca, .cert = good.cert, .key = authority.Issued({.name = "other"}).key}, "is not the key of",
                CredentialFault::kKeyOfAnother);
  ExpectRefused({.ca = stranger.Issued({.name = "far"}).ca, .cert = good.cert, .key = good.key}, "not accepted",
                CredentialFault::kAuthority);
  ExpectRefused({.ca = good.ca, .cert = good.ca, .key = authority.dir() + "/ca.key"}, "no identity",
                CredentialFault::kNoIdentity);
  ExpectRefused(authority.Issued({.name = "old"}, {.begins = days(-10), .ends = days(-1)}), "ended on",
                CredentialFault::kExpired);
  ExpectRefused(authority.Issued({.name = "early"}, {.begins = days(1), .ends = days(10)}), "begins on",
                CredentialFault::kNotYetValid);
  const CredentialFiles open = authority.Issued({.name = "open"});
  ASSERT_EQ(::chmod(open.key.c_str(), 0644), 0);
  ExpectRefused(open, "chmod o=", CredentialFault::kKeyExposed);
  const CredentialFiles torn = authority.Issued({.name = "torn"});
  Overwrite(torn.cert, "-----BEGIN CERTIFICATE-----\nMIIB\n");
  ExpectRefused(torn, "no certificate");
  Overwrite(torn.cert, std::string(100'000, 'x'));
  ExpectRefused(torn, "too large");
}

TEST(CredentialsTest, RefusesFilesThatEverybodyCouldReplace) {
  const TestAuthority authority;
  const CredentialFiles files = authority.Issued({.name = "node"});
  for (const std::string& file : {files.ca, files.cert}) {
    ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
    ExpectRefused(files, file + " can be written to", CredentialFault::kReplaceable);
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  }
  ASSERT_EQ(::chmod(authority.dir().c_str(), 0777), 0);
  ExpectRefused(files, authority.dir() + " can be written to", CredentialFault::kReplaceable);
  ASSERT_EQ(::chmod(authority.dir().c_str(), 01777), 0);
  EXPECT_TRUE(Credentials::Load(files).ok()) << "in a sticky directory only owners replace files";
}

TEST(CredentialsTest, RefusesFilesBelowADirectoryThatEverybodyWritesTo) {
  const TestAuthority authority;
  (void)authority.Issued({.name = "node"});
  const std::string above = authority.dir() + "/above";
  const std::string directory = above + "/tls";
  std::filesystem::create_directories(directory);
  for (const char* name : {"ca.pem", "node.pem", "node.key"}) {
    std::filesystem::copy(authority.dir() + "/" + name, directory + "/" + name);
  }
  const std::string link = authority.dir() + "/link";
  std::filesystem::create_symlink("above/../above", link);
  const std::string linked = link + "/tls";
  std::filesystem::create_directory(authority.dir() + "/beside");
  const std::string dotted = authority.dir() + "/beside/./../above/tls";
  ASSERT_TRUE(Credentials::Load(FilesOf(directory, "node")).ok());
  ASSERT_TRUE(Credentials::Load(FilesOf(linked, "node")).ok());
  ASSERT_TRUE(Credentials::Load(FilesOf(dotted, "node")).ok());
  ASSERT_EQ(::chmod(above.c_str(), 0777), 0);
  ExpectRefused(FilesOf(directory, "node"), above + " can be written to", CredentialFault::kReplaceable);
  ExpectRefused(FilesOf(linked, "node"), above + " can be written to", CredentialFault::kReplaceable);
  ExpectRefused(FilesOf(dotted, "node"), above + " can be written to", CredentialFault::kReplaceable);
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_TRUE(Credentials::Load(FilesOf(directory, "node")).ok());
}

TEST(TlsSecurityTest, ReloadTakesNewFilesAndKeepsTheOldWhereTheyAreBad) {
  const TestAuthority authority;
  const CredentialFiles files = authority.Issued({.name = "node"});
  TlsSecurity security(Credentials::Load(files).value());
  const std::shared_ptr<Credentials> first = security.credentials();
  std::filesystem::remove(files.cert);
  EXPECT_FALSE(security.Reload(files).ok());
  EXPECT_EQ(security.credentials(), first);
  std::filesystem::remove(files.key);
  (void)authority.Issued({.name = "node"}, ValidFor(days(10)));
  ASSERT_TRUE(security.Reload(files).ok());
  ExpectDaysLeft(*security.credentials(), days(10));
  const Status other = security.Reload(authority.Issued({.name = "else"}));
  EXPECT_NE(other.text().find("restart it"), std::string::npos) << other.text();
  EXPECT_EQ(security.credentials()->self().name, "node");
}

// A new authority replaces the old without a moment in which hosts do not accept each other.
TEST(CredentialsTest, SeveralAuthoritiesInOneFileAreAllTrusted) {
  const TestAuthority old_one;
  const TestAuthority new_one;
  const CredentialFiles of_old = old_one.Issued({.name = "a"});
  const CredentialFiles of_new = new_one.Issued({.name = "b"});
  const std::string both = old_one.dir() + "/both.pem";
  Overwrite(both, TextOf(of_new.ca) + "\n" + TextOf(of_old.ca));
  EXPECT_TRUE(Credentials::Load({.ca = both, .cert = of_old.cert, .key = of_old.key}).ok());
  EXPECT_TRUE(Credentials::Load({.ca = both, .cert = of_new.cert, .key = of_new.key}).ok());
  Overwrite(both, TextOf(of_new.ca) + TextOf(of_old.ca).substr(0, 200));
  ExpectRefused({.ca = both, .cert = of_new.cert, .key = of_new.key}, "torn");
}

// ---- what is revoked

TEST(RevocationsTest, CertificatesOfANameOrOfAFileAreRefusedFromThenOn) {
  const TestAuthority authority;
  const CredentialFiles lost = authority.Issued({.name = "lost"});
  const CredentialFiles sold = authority.Issued({.name = "sold"});
  const CredentialFiles good = authority.Issued({.name = "good"});
  ASSERT_TRUE(Credentials::Load(lost).ok());
  const auto first = Revoke(authority.dir(), "lost");
  ASSERT_TRUE(first.ok()) << first.status().text();
  EXPECT_NE(first.value().find("daemon lost"), std::string::npos) << first.value();
  ExpectRefused(lost, "is revoked", CredentialFault::kRevoked);
  EXPECT_TRUE(Credentials::Load(sold).ok());
  std::filesystem::remove(authority.dir() + "/issued");  // as of an authority of 0.9.0
  EXPECT_NE(Revoke(authority.dir(), "sold").status().text().find("NAME.pem"), std::string::npos);
  ASSERT_TRUE(Revoke(authority.dir(), sold.cert).ok());
  ASSERT_TRUE(Revoke(authority.dir(), sold.cert).ok()) << "again";
  ExpectRefused(sold, "is revoked", CredentialFault::kRevoked);
  ExpectRefused(lost, "is revoked", CredentialFault::kRevoked);
  const auto loaded = Credentials::Load(good);
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  EXPECT_EQ(loaded.value()->revocations()->count(), 2U);
  // A new certificate of the same name is another one.
  std::filesystem::remove(lost.cert);
  std::filesystem::remove(lost.key);
  EXPECT_TRUE(Credentials::Load(authority.Issued({.name = "lost"})).ok());
}

TEST(RevocationsTest, OnlyTheAuthoritysOwnWholeListIsTaken) {
  const TestAuthority authority;
  const TestAuthority stranger;
  const CredentialFiles files = authority.Issued({.name = "n"});
  (void)stranger.Issued({.name = "n"});
  ASSERT_TRUE(Revoke(stranger.dir(), "n").ok());
  const std::string list = RevocationsBeside(files.ca);
  std::filesystem::copy_file(RevocationsBeside(stranger.dir() + "/ca.pem"), list);
  ExpectRefused(files, "not signed by");
  EXPECT_NE(Revoke(authority.dir(), "n").status().text().find("no revocation list of this authority"),
            std::string::npos);
  Overwrite(list, "");
  ExpectRefused(files, "no revocation list");
  std::filesystem::remove(list);
  EXPECT_EQ(Revoke(authority.dir(), stranger.dir() + "/n.pem").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Revoke(authority.dir(), files.ca).status().code(), Code::kInvalidArgument) << "the authority itself";
  (void)authority.Issued({.name = "other"});
  ASSERT_TRUE(Revoke(authority.dir(), "other").ok());
  ASSERT_TRUE(Credentials::Load(files).ok());
  std::filesystem::resize_file(list, std::filesystem::file_size(list) - 40);
  ExpectRefused(files, "no revocation list");
}

// ---- the authority

TEST(AuthorityTest, FilesAreSecretAndNeverOverwritten) {
  const TestAuthority authority;
  const CredentialFiles files = authority.Issued({.name = "n"});
  for (const std::string& key : {files.key, authority.dir() + "/ca.key"}) {
    struct stat facts {};
    ASSERT_EQ(::stat(key.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U) << key;
  }
  EXPECT_NE(InitAuthority(authority.dir()).text().find("not overwritten"), std::string::npos);
  const IssueDirectories here{.dir = authority.dir(), .out = authority.dir()};
  EXPECT_NE(Issue(here, {.name = "n"}).text().find("not overwritten"), std::string::npos);
  EXPECT_TRUE(Credentials::Load(files).ok()) << "what was there is as it was";
  // Half of a pair is not left behind, and not completed.
  std::filesystem::remove(files.key);
  EXPECT_FALSE(Issue(here, {.name = "n"}).ok());
  EXPECT_FALSE(std::filesystem::exists(files.key));
}

TEST(AuthorityTest, WritesElsewhereWithTheAuthoritysCertificate) {
  const TestAuthority authority;
  const std::string out = authority.dir() + "/host/a";
  ASSERT_TRUE(Issue({.dir = authority.dir(), .out = out}, {.name = "a"}).ok());
  EXPECT_TRUE(Credentials::Load(FilesOf(out, "a")).ok());
  EXPECT_FALSE(std::filesystem::exists(out + "/ca.key"));
}

TEST(AuthorityTest, DoesNotMixWithAnother) {
  const TestAuthority authority;
  const TestAuthority other;
  const Status mixed = Issue({.dir = authority.dir(), .out = other.dir()}, {.name = "a"});
  EXPECT_NE(mixed.text().find("of another authority"), std::string::npos) << mixed.text();
  EXPECT_FALSE(std::filesystem::exists(other.dir() + "/a.key"));
}

TEST(AuthorityTest, RefusesBadNamesAndForeignDirectories) {
  const TestAuthority authority;
  for (const char* name : {"", "ca", "crl", "a/b", "..", "-x", "a b"}) {
    EXPECT_EQ(Issue({.dir = authority.dir(), .out = authority.dir()}, {.name = name}).code(), Code::kInvalidArgument)
        << name;
  }
  EXPECT_NE(Issue({.dir = "/nowhere", .out = "/nowhere"}, {.name = "a"}).text().find("certs init"), std::string::npos);
}

TEST(AuthorityTest, DescribesWhatItIssued) {
  const TestAuthority authority;
  const CredentialFiles files = authority.Issued({.role = ProcessRole::kOperator, .name = "ann"});
  const Result<std::string> text = Describe(files.cert);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("operator ann"), std::string::npos) << text.value();
  EXPECT_NE(text.value().find("Ringway CA"), std::string::npos) << text.value();
  EXPECT_NE(Describe(files.ca).value().find("a certificate authority"), std::string::npos);
  EXPECT_NE(Describe(authority.Issued({.name = "old"}, {.begins = days(-10), .ends = days(-1)}).cert)
                .value()
                .find("not valid now"),
            std::string::npos);
  EXPECT_FALSE(Describe(files.key).ok());
  EXPECT_FALSE(Describe("/nowhere").ok());
}

}  // namespace
}  // namespace ringway::tls
