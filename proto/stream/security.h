// How connections between processes are secured: who is at the other end, and that nobody else reads or changes what
// passes. Implemented by TLS (proto/tls/tls_security.h).
//
// Threads: any. Lifetime: longer than the streams' making; a stream keeps what it needs of it.
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

  // Each takes a detached connection of which nothing was read. The handshake happens within the first calls of what
  // is returned (stream.h); where it fails they return an error that says why and what to do.

  // This side has dialled: it speaks to nobody but `whom`; an empty name is anybody of the role.
  virtual std::unique_ptr<Stream> Dialled(std::unique_ptr<Stream> plain, const Identity& whom) = 0;
  // This side has accepted: whoever has a certificate of the same authority gets through, as Stream::identity() says.
  virtual std::unique_ptr<Stream> Accepted(std::unique_ptr<Stream> plain) = 0;

 protected:
  Security() = default;
};

}  // namespace ringway::net
