// A network namespace of the kernel, joined to this one by a pair of virtual Ethernet devices, whose packets can be
// made to vanish: nobody gets a reset or an error, as on a path that has died.
//
//   NetworkNamespace island;
//   if (!island.status().empty()) GTEST_SKIP() << island.status();   // not root, or not allowed here
//   cluster.AddDaemonAt({island.host_inside(), island.wrapper()});
//   island.BlackHole();
//
// Names and addresses (169.254.x.y/30) follow from the process id: one at a time in a process. Threads: one.
#pragma once

#include <string>
#include <vector>

namespace ringway::e2e {

class NetworkNamespace {
 public:
  NetworkNamespace();
  // Takes namespace and devices away; what runs inside keeps the namespace until it ends.
  ~NetworkNamespace();
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;

  // Returns why there is no namespace; "" if there is one.
  const std::string& error() const { return error_; }
  const std::string& host_outside() const { return outside_; }
  const std::string& host_inside() const { return inside_; }
  // The command that runs the command after it inside.
  std::vector<std::string> wrapper() const;

  // Packets vanish, both ways, from when this returns until Restore.
  void BlackHole();
  void Restore();
  // Packets into the namespace of more than `bytes` vanish from now on, and no error reaches their sender, as where a
  // hop's link carries less and a firewall drops what it says about it. Connections begin as before.
  void DropLarge(int bytes);

 private:
  // Runs ip(8); the first failure is kept in `error_`, and nothing is done after it.
  void Ip(const std::vector<std::string>& arguments);

  std::string name_, outside_device_, inside_device_;
  std::string outside_, inside_;
  std::string error_;
};

}  // namespace ringway::e2e
