#include "proto/shell/tls_options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "proto/shell/options.h"
#include "tests/proto/tls/certificates.h"

namespace ringway::shell {
namespace {

using tls::TestAuthority;

const TlsUser kDaemon{.roles = {ProcessRole::kDaemon}};

std::string HostName() {
  std::array<char, 65> host{};
  EXPECT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  return host.data();
}

void ExpectRefused(const TlsOptions& options, const TlsUser& user, const std::string& word) {
  const Result<TlsSetup> setup = SetUpTls(options, user);
  ASSERT_FALSE(setup.ok()) << word;
  EXPECT_EQ(setup.status().code(), Code::kInvalidArgument);
  EXPECT_NE(setup.status().text().find(word), std::string::npos) << setup.status().text();
}

std::string NameOf(const TlsOptions& options, const TlsUser& user) {
  const Result<TlsSetup> setup = SetUpTls(options, user);
  EXPECT_TRUE(setup.ok()) << setup.status().text();
  return setup.ok() ? setup.value().security->credentials()->self().name : "";
}

TEST(TlsOptionsTest, NoneIsNoSecurity) {
  const Result<TlsSetup> setup = SetUpTls({}, kDaemon);
  ASSERT_TRUE(setup.ok());
  EXPECT_EQ(setup.value().security, nullptr);
}

TEST(TlsOptionsTest, DirectoryHasTheCertificateOfTheRole) {
  const TestAuthority authority;
  const TlsOptions options{.dir = authority.dir()};
  ExpectRefused(options, kDaemon, "issue NAME --role daemon");
  (void)authority.Issued({.role = ProcessRole::kMaster, .name = "m"});
  ExpectRefused(options, kDaemon, "issue NAME --role daemon");
  (void)authority.Issued({.role = ProcessRole::kDaemon, .name = "one"});
  EXPECT_EQ(NameOf(options, kDaemon), "one");
  EXPECT_EQ(NameOf(options, {.roles = {ProcessRole::kOperator, ProcessRole::kMaster}}), "m") << "the first there is";
}

TEST(TlsOptionsTest, OfSeveralTheNamedOrTheHostsIsTaken) {
  const TestAuthority authority;
  const TlsOptions options{.dir = authority.dir()};
  (void)authority.Issued({.name = "one"});
  (void)authority.Issued({.name = "two"});
  ExpectRefused(options, kDaemon, "several (one.pem, two.pem)");
  EXPECT_EQ(NameOf(options, {.roles = kDaemon.roles, .name = "two"}), "two");
  ExpectRefused(options, {.roles = kDaemon.roles, .name = "three"}, "no certificate of daemon three");
  (void)authority.Issued({.name = HostName()});
  EXPECT_EQ(NameOf(options, kDaemon), HostName());
}

TEST(TlsOptionsTest, OtherFilesInTheDirectoryDoNotMatter) {
  const TestAuthority authority;
  (void)authority.Issued({.name = "one"});
  std::ofstream(authority.dir() + "/torn.pem") << "x";
  std::ofstream(authority.dir() + "/torn.key") << "x";
  std::filesystem::remove(authority.Issued({.name = "keyless"}).key);
  std::filesystem::create_directory(authority.dir() + "/folder.pem");
  EXPECT_EQ(NameOf({.dir = authority.dir()}, kDaemon), "one");
}

TEST(TlsOptionsTest, EmptyValueIsNoWishForNoEncryption) {
  for (const char* name : {"--tls-dir", "--tls-ca", "--tls-cert", "--tls-key"}) {
    TlsOptions options;
    CLI::App app("A program.", "program");
    AddTlsOptions(app, &options);
    const std::array<const char*, 3> argv = {"program", name, ""};
    const Status status = Parse(app, argv.size(), argv.data());
    EXPECT_NE(status.text().find("is empty"), std::string::npos) << name << status.text();
  }
}

TEST(TlsOptionsTest, FilesGoTogetherAndHaveTheRoleAndTheName) {
  const TestAuthority authority;
  const tls::CredentialFiles files = authority.Issued({.name = "one"});
  ExpectRefused({.dir = {}, .ca = files.ca}, kDaemon, "go together");
  ExpectRefused({.dir = {}, .ca = files.ca, .cert = files.cert}, kDaemon, "go together");
  const TlsOptions options{.dir = {}, .ca = files.ca, .cert = files.cert, .key = files.key};
  EXPECT_EQ(NameOf(options, kDaemon), "one");
  ExpectRefused(options, {.roles = {ProcessRole::kMaster}}, "needs one with the role master");
  ExpectRefused(options, {.roles = kDaemon.roles, .name = "two"}, "is not the name on");
  ExpectRefused({.dir = "/nowhere"}, kDaemon, "cannot read /nowhere");
}

}  // namespace
}  // namespace ringway::shell
