#include "proto/shell/http_request.h"

namespace ringway::shell {
namespace {

constexpr int kBadRequest = 400;
constexpr int kMethodNotAllowed = 405;

std::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case kMethodNotAllowed:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

// Takes the text up to the first `end` from the front, and `end` with it; all of it where there is none.
std::string_view TakeUpTo(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  return taken;
}

}  // namespace

std::optional<HttpRequest> ParseHttpRequest(std::string_view bytes) {
  if (bytes.find("\r\n\r\n") == std::string_view::npos) return std::nullopt;
  std::string_view line = TakeUpTo(bytes, "\r\n");
  const std::string_view method = TakeUpTo(line, " ");
  std::string_view target = TakeUpTo(line, " ");
  HttpRequest request;
  request.only_head = method == "HEAD";
  if (!line.starts_with("HTTP/1.") || !target.starts_with('/')) {
    request.refusal = kBadRequest;
  } else if (method != "GET" && !request.only_head) {
    request.refusal = kMethodNotAllowed;
  }
  request.path = TakeUpTo(target, "?");
  return request;
}

std::string HttpHead(int code, std::size_t body_bytes, std::string_view content_type) {
  std::string head = "HTTP/1.1 " + std::to_string(code) + " ";
  head += ReasonOf(code);
  head.append("\r\nContent-Type: ").append(content_type);
  head += "\r\nContent-Length: " + std::to_string(body_bytes);
  head += "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer";
  head += "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ";
  head += "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  if (code == kMethodNotAllowed) head += "\r\nAllow: GET, HEAD";
  return head + "\r\nConnection: close\r\n\r\n";
}

}  // namespace ringway::shell
