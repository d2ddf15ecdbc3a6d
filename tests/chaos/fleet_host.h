// Changes the surroundings of a chaos run's processes: the wall clock and the resolution of names that a process sees,
// the disk of the master's journal, and the name server of the host.
//
// One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/chaos/surroundings.h"
#include "tests/e2e/processes.h"

namespace ringway::chaos {

// The surroundings of one process and of its successors.
class Surrounded {
 public:
  // `path`: of a file that is made.
  explicit Surrounded(const std::string& path);
  ~Surrounded();
  Surrounded(const Surrounded&) = delete;
  Surrounded& operator=(const Surrounded&) = delete;

  // The command line that starts `argv` in them. With sanitizers, which have to be loaded first: argv.
  std::vector<std::string> Start(const std::vector<std::string>& argv) const;
  Surroundings& operator*() const { return *here_; }
  Surroundings* operator->() const { return here_; }

 private:
  const std::string path_;
  Surroundings* here_ = nullptr;
};

// A disk of its own, so that it can be filled: a tmpfs in a mount namespace of this process and its children. Only root
// may have one; elsewhere the directory is an ordinary one, which cannot.
class SmallDisk {
 public:
  // `mounts`: else it is an ordinary directory, too.
  SmallDisk(std::string directory, bool mounts);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool can_be_filled() const { return mounted_; }
  void Fill() const;
  void Empty() const;

 private:
  const std::string directory_;
  bool mounted_ = false;
};

// The host's only name server, in the mount and network namespace of this process and its children: /etc/resolv.conf is
// another file there. Where that, or its port, cannot be had, there is none.
class NameServer {
 public:
  static constexpr char kName[] = "master.ringway.test";  // RFC 6761: no other server knows such a name

  // `wanted`: this process has a mount namespace of its own (SmallDisk). `directory` outlives it.
  NameServer(const e2e::TemporaryDirectory& directory, bool wanted);
  ~NameServer();
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  bool resolves() const { return mounted_; }
  void Start();
  void Stop() { process_.reset(); }

 private:
  const e2e::TemporaryDirectory& directory_;
  std::unique_ptr<e2e::Process> process_;
  int starts_ = 0;
  bool mounted_ = false;
};

}  // namespace ringway::chaos
