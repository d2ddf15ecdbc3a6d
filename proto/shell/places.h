// The addresses and files of a program's options. For --check-config: whether it could use what it makes or opens when
// it starts. Changes nothing, and a running program's own files and ports are no fault; the answer holds for the user
// who asks.
//
// Errors: kInvalidArgument with a sentence that names the option and says what to do.
#pragma once

#include <cstdint>
#include <string>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/stream/address.h"

namespace ringway::shell {

// A file to write to.
struct FilePlace {
  std::string option;
  std::string path;
  bool makes_directories = false;  // where they are missing above it
};
Status CheckFilePlace(const FilePlace& place);

// Checks the place of a Unix socket; its directories are made.
Status CheckSocketPlace(const std::string& option, const std::string& path);

// Who is to reach an address.
enum class Reach : std::uint8_t {
  kThisHost,    // there is neither TLS nor --insecure: only loopback addresses
  kOtherHosts,  // not a name that means the loopback interface alone, as some installers put it into /etc/hosts
  kAny,
};

// Returns the address of HOST:PORT to listen on.
Result<net::SocketAddress> ResolveListen(const std::string& option, const Endpoint& where, Reach reach);
// Checks the address of --http, which has the same reach as the program (`reach`). Empty means no HTTP server.
Status CheckHttpAddress(const std::string& address, Reach reach);
// The same rules, where `where` is known to be `address`.
Status CheckListenAddress(const std::string& option, const Endpoint& where, const net::SocketAddress& address,
                          Reach reach);

// HOST:PORT to dial from this host alone. A name that cannot be resolved now may be later: net::Connector checks again.
Status CheckDialsLoopback(const std::string& option, const Endpoint& where);

// HOST:PORT to listen on.
Status CheckListenPlace(const std::string& option, const std::string& address);

}  // namespace ringway::shell
