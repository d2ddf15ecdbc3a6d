// etcd as Debian has it: one process or a cluster of three, on loopback.
//
// Threads: one (see processes.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/processes.h"

namespace ringway::e2e {

// Returns whether it is installed.
bool HasEtcd();

class Etcd {
 public:
  // Waits until it answers.
  explicit Etcd(std::size_t members);

  // The addresses of all, as --store takes them.
  std::string store() const;
  std::string endpoint(std::size_t member) const;
  Process& member(std::size_t index) { return *processes_[index]; }
  // A killed one comes back with its data.
  void Start(std::size_t member);
  void AwaitHealth() const;

  // What etcdctl prints, as `user:password` if that is given. Errors are the test's.
  std::string Ctl(const std::vector<std::string>& arguments, const std::string& user = "") const;

 private:
  TemporaryDirectory directory_;
  std::vector<std::uint16_t> client_ports_, peer_ports_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace ringway::e2e
