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

std::string HttpHead(int code, std::size_t body_bytes) {
  std::string head = "HTTP/1.1 " + std::to_string(code) + " ";
  head += ReasonOf(code);
  head += "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " + std::to_string(body_bytes);
  if (code == kMethodNotAllowed) head += "\r\nAllow: GET, HEAD";
  return head + "\r\nConnection: close\r\n\r\n";
}

}  // namespace ringway::shell
