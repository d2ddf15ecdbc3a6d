// What a master says of a store that it cannot use: the same when it starts and with --check-config.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"
#include "tests/e2e/processes.h"

namespace ringway::e2e {
namespace {

using Argv = std::vector<std::string>;

class StoreOptionsTest : public testing::Test {
 protected:
  static Argv Master(const Argv& more, const std::string& listen = "127.0.0.1:0") {
    Argv argv = {RINGWAY_MASTER, "--listen", listen};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  static Argv Etcd(const Argv& more, const std::string& listen = "127.0.0.1:0") {
    Argv argv = Master({"--store", "etcd://127.0.0.1:2379"}, listen);
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  static void ExpectRefused(Argv argv, const std::string& what) {
    ExpectRefusal(argv, "ringway-master", what);
    argv.emplace_back("--check-config");
    ExpectRefusal(argv, "ringway-master", what);
  }
  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }

  TemporaryDirectory directory_;
};

TEST_F(StoreOptionsTest, WordThatIsNoStoreIsRefused) {
  for (const char* store : {"etc://127.0.0.1:2379", "etcd:/127.0.0.1:2379", "etcd", "x.db", "/var/lib/x.db"}) {
    ExpectRefused(Master({"--store", store}), std::string("--store ") + store + ": give sqlite:FILE");
  }
  ExpectRefused(Master({"--store", "sqlite:"}), "names no file");
  ExpectRefused(Master({"--store", "etcd://127.0.0.1"}), "--store: '127.0.0.1' is not HOST:PORT");
  ExpectRefused(Master({"--journal", directory_ / "absent/x.db"}), "there is no directory");
}

TEST_F(StoreOptionsTest, EtcdOnAnotherHostNeedsItsAuthorityOrTheWordThatNothingIsEncrypted) {
  ExpectRefused(Master({"--store", "etcd://127.0.0.1:2379,192.0.2.1:2379"}), "192.0.2.1:2379 is not a loopback");
  ExpectRefused(Master({"--store", "etcd://nobody.invalid:2379"}), "nobody.invalid:2379 is not a loopback");
}

TEST_F(StoreOptionsTest, OptionsThatDoNotFitTheStoreAreRefused) {
  ExpectRefused(Etcd({"--new-journal"}), "--new-journal is for a file");
  ExpectRefused(Etcd({"--advertise", "foo"}), "--advertise: 'foo' is not HOST:PORT");
  ExpectRefused(Etcd({"--insecure"}, "0.0.0.0:0"), "--advertise HOST:PORT by which one");
  for (const Argv& more :
       {Argv{"--advertise", "127.0.0.1:7400"}, Argv{"--lease-s", "2"}, Argv{"--store-ca", "ca.pem"}}) {
    Argv argv = {"--journal", directory_ / "x.db"};
    argv.insert(argv.end(), more.begin(), more.end());
    ExpectRefused(Master(argv), more[0] + " is for masters that share an etcd");
  }
}

TEST_F(StoreOptionsTest, OptionsThatBelongTogetherAreGivenTogether) {
  ExpectRefused(Etcd({"--store-cert", "a.pem"}), "--store-cert requires --store-key");
  ExpectRefused(Etcd({"--store-key", "a.key"}), "--store-key requires --store-cert");
  ExpectRefused(Etcd({"--store-user", "ringway"}), "--store-user requires --store-password-file");
  ExpectRefused(Etcd({"--store-password-file", "p"}), "--store-password-file requires --store-user");
}

TEST_F(StoreOptionsTest, FilesThatCannotBeReadAreNamed) {
  const std::string absent = directory_ / "absent.pem", there = File("there.pem", "x\n"), empty = File("empty", "");
  ExpectRefused(Etcd({"--store-ca", absent}), "--store-ca: there is no " + absent);
  ExpectRefused(Etcd({"--store-cert", there, "--store-key", absent}), "--store-key: there is no " + absent);
  ExpectRefused(Etcd({"--store-cert", directory_.path(), "--store-key", there}),
                "--store-cert: " + directory_.path().string() + " is a directory");
  ExpectRefused(Etcd({"--store-user", "u", "--store-password-file", absent}),
                "--store-password-file: there is no " + absent);
  ExpectRefused(Etcd({"--store-user", "u", "--store-password-file", empty}),
                "--store-password-file: " + empty + " has no line");
}

TEST_F(StoreOptionsTest, CheckSaysThatEtcdItselfIsNotAsked) {
  const auto said = [](Argv argv) {
    argv.emplace_back("--check-config");
    return RunToEnd(argv).out;
  };
  EXPECT_EQ(said(Etcd({})), "ringway-master: the configuration is in order; etcd itself was not asked\n");
  EXPECT_EQ(said(Master({"--journal", "none"})), "ringway-master: the configuration is in order\n");
}

}  // namespace
}  // namespace ringway::e2e
