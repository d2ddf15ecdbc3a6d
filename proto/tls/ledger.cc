#include "proto/tls/ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

#include "proto/identity.h"

namespace ringway::tls {
namespace {

constexpr mode_t kMode = 0644;

Status Failure(const std::string& what) {
  return {Code::kIo, what + ": " + std::error_code(errno, std::generic_category()).message()};
}

std::optional<Issued> Parse(const std::string& line) {
  const std::size_t role = line.find(' ');
  const std::size_t name = line.find(' ', role + 1);
  if (role != kSerialDigits || name == std::string::npos) return std::nullopt;
  if (line.find_first_not_of("0123456789ABCDEF") != role || !IsIdentityName(line.substr(name + 1)) ||
      !ParseProcessRole(line.substr(role + 1, name - role - 1))) {
    return std::nullopt;
  }
  return Issued{line.substr(0, role), line.substr(role + 1)};
}

}  // namespace

Result<Ledger> Ledger::Open(const std::string& dir) {
  std::string path = dir + "/issued";
  net::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!fd.valid()) return Failure("cannot write " + path);
  int locked = 0;
  do {
    locked = ::flock(fd.get(), LOCK_EX);
  } while (locked != 0 && errno == EINTR);
  if (locked != 0) return Failure("cannot lock " + path);
  return Ledger(std::move(fd), std::move(path));
}

Status Ledger::Add(const Issued& one) {
  struct stat facts {};
  char last = '\n';
  if (::fstat(fd_.get(), &facts) != 0 || (facts.st_size > 0 && ::pread(fd_.get(), &last, 1, facts.st_size - 1) != 1)) {
    return Failure("cannot read " + path_);
  }
  const std::string line = (last == '\n' ? "" : "\n") + one.serial + " " + one.who + "\n";
  errno = ENOSPC;  // of a write that is cut short
  if (::write(fd_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return Status::Ok();
  Status failure = Failure("cannot write " + path_);
  // If that fails, too, the next one begins on a line of its own, and Find counts the torn one.
  (void)!::ftruncate(fd_.get(), facts.st_size);
  return failure;
}

Ledger::Found Ledger::Find(const std::string& name) const {
  Found found;
  std::ifstream lines(path_);
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Issued> one = Parse(line);
    if (!one) {
      ++found.torn;
    } else if (one->who.substr(one->who.find(' ') + 1) == name) {
      found.issued.push_back(*one);
    }
  }
  return found;
}

}  // namespace ringway::tls
