// Authentication and encryption of connections between processes; implemented by TLS (proto/tls/tls_security.h).
//
// Threads: any. Lifetime: must live while streams are made; a stream keeps what it needs.
#pragma once

#include <memory>

#include "proto/identity.h"
#include "proto/stream/stream.h"

namespace ringway::net {

class Security {
 public:
  virtual ~Security() = default;
  Security(const Security&) = delete;
  Security& operator=(const Security&) = delete;

  // Both take a detached connection of which nothing was read. The handshake happens within the first calls of the
  // returned stream (stream.h); if it fails they return an error with the reason and the remedy.

  // This side has dialled: it accepts only `whom` at the other end; an empty name is any process of the role.
  virtual std::unique_ptr<Stream> Dialled(std::unique_ptr<Stream> plain, const Identity& whom) = 0;
  // This side has accepted: any certificate of the same authority is accepted; Stream::identity() names it.
  virtual std::unique_ptr<Stream> Accepted(std::unique_ptr<Stream> plain) = 0;

 protected:
  Security() = default;
};

}  // namespace ringway::net
