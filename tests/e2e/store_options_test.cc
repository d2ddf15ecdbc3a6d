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
  const Argv etcd = {"--store", "etcd://127.0.0.1:2379"};
  const auto with = [&](const Argv& more) {
    Argv argv = etcd;
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  };
  ExpectRefused(Master(with({"--new-journal"})), "--new-journal is for a file");
  ExpectRefused(Master(with({"--advertise", "foo"})), "--advertise: 'foo' is not HOST:PORT");
  ExpectRefused(Master(with({"--insecure"}), "0.0.0.0:0"), "--advertise HOST:PORT by which one");
}

}  // namespace
}  // namespace ringway::e2e
