// The head of an HTTP request, as far as these programs serve any. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ringway::shell {

struct HttpRequest {
  std::string path;        // without the query
  bool only_head = false;  // HEAD: the answer is to have no body
  int refusal = 0;         // the status code of a request that is none; 0: it is one

  bool operator==(const HttpRequest&) const = default;
};

// Returns nothing while the head has not ended.
std::optional<HttpRequest> ParseHttpRequest(std::string_view bytes);

// The text format of Prometheus, and of all that is said in words.
inline constexpr std::string_view kPlainText = "text/plain; version=0.0.4; charset=utf-8";

// The head of an answer with this status code, up to and with the empty line. A browser may use nothing but what comes
// from the same server, and keeps nothing.
std::string HttpHead(int code, std::size_t body_bytes, std::string_view content_type = kPlainText);

}  // namespace ringway::shell
