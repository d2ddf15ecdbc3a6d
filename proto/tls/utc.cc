#include "proto/tls/utc.h"

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include "proto/tls/credentials.h"

namespace ringway::tls {
namespace {

using Time = std::unique_ptr<ASN1_TIME, Freer<ASN1_STRING_free>>;

constexpr char kShape[] = "0000-00-00T00:00:00Z";  // 0: a digit
constexpr std::int64_t kDaySeconds = 24 * 3600;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool HasShape(const std::string& utc) {
  return utc.size() == sizeof kShape - 1 && std::equal(utc.begin(), utc.end(), kShape, [](char c, char shape) {
           return shape == '0' ? IsDigit(c) : c == shape;
         });
}

}  // namespace

std::string UtcNow() {
  const Time now(X509_gmtime_adj(nullptr, 0));
  std::tm calendar{};
  if (now == nullptr || ASN1_TIME_to_tm(now.get(), &calendar) != 1) return "";
  std::array<char, 24> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &calendar);
  return text.data();
}

std::optional<std::int64_t> SecondsUntil(const std::string& utc) {
  if (!HasShape(utc)) return std::nullopt;
  std::string digits;  // as ASN.1 writes it
  std::copy_if(utc.begin(), utc.end(), std::back_inserter(digits), IsDigit);
  const Time time(ASN1_TIME_new());
  int days = 0;
  int seconds = 0;  // of the same sign
  const bool read = time != nullptr && ASN1_TIME_set_string(time.get(), (digits + "Z").c_str()) == 1 &&
                    ASN1_TIME_diff(&days, &seconds, nullptr, time.get()) == 1;
  ERR_clear_error();
  if (!read) return std::nullopt;
  return days * kDaySeconds + seconds;
}

}  // namespace ringway::tls
