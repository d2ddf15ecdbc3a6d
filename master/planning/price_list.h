// What an operator pays for traffic from site to site. Pure.
//
// A value; const functions are safe from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ringway {

class PriceList {
 public:
  // In place of the receiving site: all but the sender's own.
  static constexpr std::string_view kAnySite = "*";
  static constexpr double kPerGbMax = 1e6;
  static constexpr double kGigabyte = 1e9;

  // Money a GB. `rest`: between sites that are not named.
  PriceList(std::string currency, double rest) : currency_(std::move(currency)), rest_(rest) {}
  void Set(const std::string& from, const std::string& to, double per_gb) { prices_[{from, to}] = per_gb; }

  const std::string& currency() const { return currency_; }
  // Within a site nothing, unless it is named twice.
  double PerByte(const std::string& from, const std::string& to) const {
    auto found = prices_.find({from, to});
    if (found == prices_.end() && from != to) found = prices_.find({from, std::string(kAnySite)});
    if (found != prices_.end()) return found->second / kGigabyte;
    return from == to ? 0 : rest_ / kGigabyte;
  }

 private:
  std::string currency_;
  double rest_ = 0;
  std::map<std::pair<std::string, std::string>, double> prices_;  // by from, to
};

// How much longer than the fastest schedule a cheaper one may take where a plan is to be cheap.
inline constexpr double kCheapRatio = 1.1;

}  // namespace ringway
