#include "master/shell/price_file.h"

#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include "master/coordination/names.h"
#include "proto/printable.h"
#include "proto/shell/toml_text.h"

namespace ringway {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kCurrencyBytesMax = 16;

// Nothing: it is no price.
std::optional<double> PriceOf(const shell::TomlValue& value) {
  double price = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value.value)) {
    price = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&value.value)) {
    price = *real;
  } else {
    return std::nullopt;
  }
  if (!std::isfinite(price) || price < 0 || price > PriceList::kPerGbMax) return std::nullopt;
  return price;
}

bool IsLabel(const std::string& site) { return site.size() <= kNameBytesMax && IsPrintable(std::string_view(site)); }

// Why a value is refused; empty: it is taken.
std::string WhyRefused(const shell::TomlValue& value) {
  const std::string key = Printable(value.key);
  if (!value.table) {
    if (value.key == "currency") {
      const auto* text = std::get_if<std::string>(&value.value);
      const bool is_fine = text != nullptr && !text->empty() && text->size() <= kCurrencyBytesMax &&
                           IsPrintable(std::string_view(*text));
      return is_fine ? "" : "currency is to be a name of at most 16 printable bytes, as \"USD\"";
    }
    if (value.key != "rest") {
      return key +
             " is neither currency, rest nor a table [SITE] of prices to other sites (a site with a dot in "
             "quotes, a table with at least one price)";
    }
  } else if (!IsLabel(*value.table) || *value.table == PriceList::kAnySite) {
    return "[" + Printable(*value.table) + "] is no site's name, which has at most 255 printable bytes";
  } else if (!IsLabel(value.key)) {
    return key + " is no site's name, which has at most 255 printable bytes";
  }
  return PriceOf(value)
             ? ""
             : "the price " + key + " is to be a number from 0 to 1000000, of money a GB (a site with a dot in quotes)";
}

}  // namespace

Result<std::shared_ptr<const PriceList>> ParsePrices(const std::string& text, const std::string& what) {
  const Result<std::vector<shell::TomlValue>> values = shell::ReadToml(text, what);
  if (!values.ok()) return values.status();
  std::optional<std::string> currency;
  std::optional<double> rest;
  for (const shell::TomlValue& value : values.value()) {
    if (const std::string why = WhyRefused(value); !why.empty()) {
      std::string where = what;
      where.append(", line ").append(std::to_string(value.line)).append(": ").append(why);
      return Status(Code::kInvalidArgument, std::move(where));
    }
    if (value.table) continue;
    if (value.key == "currency") currency = std::get<std::string>(value.value);
    if (value.key == "rest") rest = PriceOf(value);
  }
  if (!currency) return Status(Code::kInvalidArgument, what + ": it names no currency; write currency = \"USD\"");
  if (!rest) {
    return Status(Code::kInvalidArgument, what +
                                              ": it has no price for the rest; write rest = 0.08, the price of a GB "
                                              "between sites that are not named");
  }
  auto prices = std::make_shared<PriceList>(*currency, *rest);
  for (const shell::TomlValue& value : values.value()) {
    if (value.table) prices->Set(*value.table, value.key, PriceOf(value).value_or(0));
  }
  return std::shared_ptr<const PriceList>(std::move(prices));
}

Result<std::shared_ptr<const PriceList>> ReadPriceFile(const std::string& path) {
  const Result<std::string> text = shell::ReadTextFile(path, kFileBytesMax);
  if (!text.ok()) return Status(Code::kInvalidArgument, "--price: " + text.status().text());
  return ParsePrices(text.value(), "--price: " + path);
}

}  // namespace ringway
