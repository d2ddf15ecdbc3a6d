// The operator's prices, from a TOML file:
//
//   currency = "USD"
//   rest = 0.08            # a GB (10^9 bytes) between sites that are not named below
//
//   [us-east]              # sent from there, to ...
//   eu-west = 0.05
//   "*" = 0.09             # any other site
//
// Sites are those of the daemons' --site; that of daemons without one is "". Traffic within a site costs nothing unless
// the site is named in its own table.
#pragma once

#include <memory>
#include <string>

#include "master/planning/price_list.h"
#include "proto/result.h"

namespace ringway {

// `what`: the file, for errors: kInvalidArgument, "WHAT, line N: ...".
Result<std::shared_ptr<const PriceList>> ParsePrices(const std::string& text, const std::string& what);
// Errors also where the file cannot be read or is longer than 1 MiB.
Result<std::shared_ptr<const PriceList>> ReadPriceFile(const std::string& path);

}  // namespace ringway
