// What an authority has issued: DIR/issued, a line "SERIAL ROLE NAME" for each certificate. While a ledger is open, no
// other process or thread opens that of the same directory: what is read and written in DIR meanwhile is not mixed.
//
// Threads: one. Errors: kInvalidArgument says what to do, kIo what the system refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::tls {

struct Issued {
  std::string serial;  // kSerialDigits of hexadecimal, without which a line is not whole
  std::string who;     // "daemon node-1"
};

inline constexpr std::size_t kSerialDigits = 40;  // of at most 20 bytes (RFC 5280)

class Ledger {
 public:
  // Waits for whoever has it open, until that one closes it or ends.
  static Result<Ledger> Open(const std::string& dir);

  // Adds a line that is whole or not there.
  Status Add(const Issued& one);

  struct Found {
    std::vector<Issued> issued;  // to that name
    std::size_t torn = 0;        // lines that are not whole, of any name
  };
  Found Find(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  Ledger(net::UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  net::UniqueFd fd_;  // holds the lock
  std::string path_;
};

}  // namespace ringway::tls
