// Any bytes as a file of prices: they are read, or refused with one line.
#include <string>

#include "master/shell/price_file.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ringway::PriceList;
  const auto prices = ringway::ParsePrices(std::string(reinterpret_cast<const char*>(data), size), "prices");
  if (!prices.ok()) {
    REQUIRE(prices.status().code() == ringway::Code::kInvalidArgument);
    REQUIRE(prices.status().text().starts_with("prices") && prices.status().text().find('\n') == std::string::npos);
    return 0;
  }
  REQUIRE(!prices.value()->currency().empty());
  const double price = prices.value()->PerByte("us", "eu");
  REQUIRE(price >= 0 && price <= PriceList::kPerGbMax / PriceList::kGigabyte);
  return 0;
}
