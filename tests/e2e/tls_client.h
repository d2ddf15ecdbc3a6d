// A client at a program's port that speaks TLS, or something like it, with whatever certificates a test chooses.
//
// Threads: one. Blocking, within the patience.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>

#include "proto/frame_codec.h"
#include "proto/stream/unique_fd.h"
#include "proto/tls/credentials.h"

namespace ringway::e2e {

struct TlsClientOptions {
  std::optional<tls::CredentialFiles> files = std::nullopt;  // none: no certificate
  int version = TLS1_3_VERSION;
};

class TlsClient {
 public:
  // "HOST:PORT", numeric.
  TlsClient(const std::string& address, const TlsClientOptions& options);

  // Returns whether the handshake was finished at this end; the other may still refuse.
  bool shook() const { return shook_; }
  void Say(const google::protobuf::MessageLite& message);
  // Returns the bytes that come until the connection ends, or the first whole frame is there.
  std::string Hear();
  // The first frame as a message; false if none came.
  template <typename Message>
  bool Hear(Message& message) {
    const std::string bytes = Hear();
    FrameReader reader;
    if (!reader.Feed(std::as_bytes(std::span(bytes))).ok()) return false;
    const auto frame = reader.Next();
    return frame.has_value() && ParseFrame(*frame, message).ok();
  }
  // All that this end has sent, as it was on the wire.
  const std::string& wire() const { return wire_; }

 private:
  // Moves what OpenSSL has for the other side, and what came from there; false at the end.
  bool Pump();
  void Send();

  std::unique_ptr<SSL_CTX, tls::Freer<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, tls::Freer<SSL_free>> ssl_;
  net::UniqueFd fd_;
  std::string wire_;
  bool shook_ = false;
};

// Sends bytes; returns what comes until the other side closes.
std::string SayAndHear(const std::string& address, const std::string& bytes);
// A connection that stands.
net::UniqueFd ConnectTo(const std::string& address);

}  // namespace ringway::e2e
