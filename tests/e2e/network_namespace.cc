#include "tests/e2e/network_namespace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/e2e/processes.h"

namespace ringway::e2e {
namespace {

constexpr const char* kIp = "/sbin/ip";
constexpr const char* kNobody = "02:00:00:00:00:01";  // a station that is not there

}  // namespace

NetworkNamespace::NetworkNamespace() {
  const int pid = ::getpid();
  name_ = "ringway" + std::to_string(pid);
  outside_device_ = "rwo" + std::to_string(pid);
  inside_device_ = "rwi" + std::to_string(pid);
  const std::string network = "169.254." + std::to_string(1 + pid / 64 % 254) + ".";
  const int first = pid % 64 * 4;
  outside_ = network + std::to_string(first + 1);
  inside_ = network + std::to_string(first + 2);
  Ip({"netns", "add", name_});
  Ip({"link", "add", outside_device_, "type", "veth", "peer", "name", inside_device_, "netns", name_});
  Ip({"addr", "add", outside_ + "/30", "dev", outside_device_});
  Ip({"link", "set", outside_device_, "up"});
  Ip({"-n", name_, "addr", "add", inside_ + "/30", "dev", inside_device_});
  Ip({"-n", name_, "link", "set", inside_device_, "up"});
  Ip({"-n", name_, "link", "set", "lo", "up"});
}

NetworkNamespace::~NetworkNamespace() {
  (void)RunToEnd({kIp, "link", "del", outside_device_});
  (void)RunToEnd({kIp, "netns", "del", name_});
}

std::vector<std::string> NetworkNamespace::wrapper() const { return {kIp, "netns", "exec", name_}; }

// A permanent neighbour that nobody is: frames leave, and whom they reach drops them as another's.
void NetworkNamespace::BlackHole() {
  Ip({"neigh", "replace", inside_, "dev", outside_device_, "lladdr", kNobody, "nud", "permanent"});
  Ip({"-n", name_, "neigh", "replace", outside_, "dev", inside_device_, "lladdr", kNobody, "nud", "permanent"});
  EXPECT_EQ(error_, "");
}

void NetworkNamespace::Restore() {
  Ip({"neigh", "del", inside_, "dev", outside_device_});
  Ip({"-n", name_, "neigh", "del", outside_, "dev", inside_device_});
  EXPECT_EQ(error_, "");
}

// The device inside drops what is larger than its MTU; TCP inside goes on to announce segments of full size.
void NetworkNamespace::DropLarge(int bytes) {
  constexpr int kHeaders = 40;
  constexpr int kUsual = 1500;
  Ip({"-n", name_, "link", "set", inside_device_, "mtu", std::to_string(bytes)});
  Ip({"-n", name_, "route", "replace", outside_ + "/32", "dev", inside_device_, "advmss",
      std::to_string(kUsual - kHeaders)});
  EXPECT_EQ(error_, "");
}

void NetworkNamespace::Ip(const std::vector<std::string>& arguments) {
  if (!error_.empty()) return;
  std::vector<std::string> argv = {kIp};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const Finished run = RunToEnd(argv);
  if (run.code != 0) error_ = "ip ended with " + std::to_string(run.code) + ": " + run.err;
}

}  // namespace ringway::e2e
