#include "proto/shell/http_request.h"

#include <gtest/gtest.h>

namespace ringway::shell {
namespace {

HttpRequest Parsed(const std::string& head) {
  const auto request = ParseHttpRequest(head + "\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(request.has_value());
  return request.value_or(HttpRequest());
}

TEST(HttpRequestTest, PathEndsAtTheQuery) {
  EXPECT_EQ(Parsed("GET /metrics HTTP/1.1").path, "/metrics");
  EXPECT_EQ(Parsed("GET /metrics?name=x?y HTTP/1.0").path, "/metrics");
  EXPECT_EQ(Parsed("GET /metrics HTTP/1.1").refusal, 0);
  EXPECT_FALSE(Parsed("GET /metrics HTTP/1.1").only_head);
  EXPECT_TRUE(Parsed("HEAD /metrics HTTP/1.1").only_head);
}

TEST(HttpRequestTest, WhatIsNoRequestIsRefused) {
  for (const char* text : {"", " ", "GET", "GET ", "GET /metrics", "GET /metrics ", "GET  /metrics HTTP/1.1",
                           "GET /metrics HTTP/2", "GET metrics HTTP/1.1", "GET /metrics\tHTTP/1.1", "\r"}) {
    EXPECT_EQ(Parsed(text).refusal, 400) << text;
  }
  EXPECT_EQ(Parsed("POST /metrics HTTP/1.1").refusal, 405);
  EXPECT_EQ(Parsed("get /metrics HTTP/1.1").refusal, 405);
}

TEST(HttpRequestTest, HeadEndsWithAnEmptyLine) {
  for (const char* text : {"", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r"}) {
    EXPECT_EQ(ParseHttpRequest(text), std::nullopt) << text;
  }
}

TEST(HttpRequestTest, AnswersHeadHasCodeLengthAndEnd) {
  const std::string head = HttpHead(503, 12);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << head;
  EXPECT_NE(head.find("\r\nContent-Length: 12\r\n"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\nConnection: close\r\n\r\n")) << head;
  EXPECT_NE(HttpHead(405, 0).find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
}

}  // namespace
}  // namespace ringway::shell
