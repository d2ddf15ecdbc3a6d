// `ringwayctl certs`: makes and shows the certificates of an installation (proto/tls/authority.h).
//
//   certs init DIR                                        DIR/ca.pem, DIR/ca.key
//   certs issue NAME --role ROLE --dir DIR [--out OUT]    OUT/NAME.pem, OUT/NAME.key; OUT/ca.pem where there is none
//   certs revoke WHO --dir DIR                            DIR/crl.pem
//   certs show FILE...                                    what they say
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"

namespace ringway::ctl {

struct CertsOrder {
  enum class What : std::uint8_t { kInit, kIssue, kRevoke, kShow };
  What what = What::kShow;
  std::string dir;
  std::string out;  // "": dir
  std::string name;
  std::string role;
  int days = 0;  // 0: the default
  std::vector<std::string> files;
};

// Adds the command into `order`, which outlives the parsing.
const CLI::App* AddCerts(CLI::App& app, CertsOrder* order);

// Returns what to print. Errors: kInvalidArgument, kIo.
Result<std::string> Carry(const CertsOrder& order);

}  // namespace ringway::ctl
