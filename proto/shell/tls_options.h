// The options by which a program gets certificates (proto/tls/), and what it makes of them.
//
//   --tls-dir DIR                             as `ringwayctl certs` fills it: the program takes the
//                                             certificate of its role
//   --tls-ca FILE --tls-cert FILE --tls-key FILE
//
// Errors: kInvalidArgument with a sentence that names the option or the file, and what to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/tls/tls_security.h"

namespace CLI {
class App;
}

namespace ringway::shell {

struct TlsOptions {
  std::string dir = {};
  std::string ca = {};
  std::string cert = {};
  std::string key = {};

  bool given() const { return !dir.empty() || !ca.empty() || !cert.empty() || !key.empty(); }
};

// Whose certificate a program runs with.
struct TlsUser {
  std::vector<ProcessRole> roles;  // the first that there is a certificate of
  std::string name = {};           // empty: any
};

inline constexpr char kTlsOrInsecure[] = "--insecure leaves all unencrypted: give it, or TLS options, not both";

inline constexpr char kInsecureEffect[] =
    "nothing is encrypted, and whoever reaches the port may join: only for a network that you trust";

// Into `options`, which outlives the parsing.
void AddTlsOptions(CLI::App& app, TlsOptions* options);

// Chooses among several certificates in a directory the one with the given name, else the one with this host's name.
Result<tls::CredentialFiles> ChooseFiles(const TlsOptions& options, const TlsUser& user);

struct TlsSetup {
  tls::CredentialFiles files;
  std::shared_ptr<tls::TlsSecurity> security;  // null: no TLS option is given
};
// `fault`, if any, gets the kind of a refusal.
Result<TlsSetup> SetUpTls(const TlsOptions& options, const TlsUser& user, tls::CredentialFault* fault = nullptr);

}  // namespace ringway::shell
