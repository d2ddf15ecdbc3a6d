#include "tests/e2e/etcd.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/e2e/closed_port.h"

namespace ringway::e2e {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";
constexpr char kEtcdCtl[] = "/usr/bin/etcdctl";

// That nobody has now.
std::uint16_t FreePort() { return ClosedPort().port(); }

std::string Url(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }
std::string NameOf(std::size_t member) { return "e" + std::to_string(member); }

}  // namespace

bool HasEtcd() { return std::filesystem::exists(kEtcd) && std::filesystem::exists(kEtcdCtl); }

Etcd::Etcd(std::size_t members) {
  for (std::size_t i = 0; i < members; ++i) {
    client_ports_.push_back(FreePort());
    peer_ports_.push_back(FreePort());
  }
  processes_.resize(members);
  for (std::size_t i = 0; i < members; ++i) Start(i);
  AwaitHealth();
}

void Etcd::Start(std::size_t member) {
  std::string cluster;
  for (std::size_t i = 0; i < peer_ports_.size(); ++i) {
    cluster += (i == 0 ? "" : ",") + NameOf(i) + "=" + Url(peer_ports_[i]);
  }
  const std::string client = Url(client_ports_[member]);
  const std::string peer = Url(peer_ports_[member]);
  const std::string name = NameOf(member);
  processes_[member].reset();
  processes_[member] = std::make_unique<Process>(
      directory_, name,
      std::vector<std::string>{kEtcd, "--name", name, "--data-dir", directory_ / (name + ".data"),
                               "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
                               peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster});
}

void Etcd::AwaitHealth() const {
  EXPECT_TRUE(Eventually([&] {
    return RunToEnd({kEtcdCtl, "--endpoints", endpoint(0), "endpoint", "health"}).code == 0;
  })) << "etcd does not start";
}

std::string Etcd::endpoint(std::size_t member) const { return "127.0.0.1:" + std::to_string(client_ports_[member]); }

std::string Etcd::store() const {
  std::string out = "etcd://";
  for (std::size_t i = 0; i < client_ports_.size(); ++i) out += (i == 0 ? "" : ",") + endpoint(i);
  return out;
}

std::string Etcd::Ctl(const std::vector<std::string>& arguments, const std::string& user) const {
  std::vector<std::string> argv = {kEtcdCtl, "--endpoints", endpoint(0)};
  if (!user.empty()) argv.insert(argv.end(), {"--user", user});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const Finished run = RunToEnd(argv);
  EXPECT_EQ(run.code, 0) << run.err;
  return run.out;
}

}  // namespace ringway::e2e
