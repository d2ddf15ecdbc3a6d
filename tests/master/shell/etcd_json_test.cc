#include "master/shell/etcd_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ringway {
namespace {

using nlohmann::json;

constexpr char kPrefix[] = "/r/";

kv::Request RequestOf(decltype(kv::Request::what) what) { return {.number = 7, .what = std::move(what)}; }

TEST(EtcdJsonTest, TransactionComparesAndPutsInBase64) {
  const EtcdCall call = EtcdCallOf(RequestOf(kv::Transact{.compare = {{"leader", kv::Compare::Of::kCreated, 5}},
                                                          .puts = {{"a", "value", 9}},
                                                          .erase = {"b"},
                                                          .get = {"leader"}}),
                                   kPrefix);
  EXPECT_EQ(call.path, "/v3/kv/txn");
  const json body = json::parse(call.body);
  EXPECT_EQ(body["compare"][0],
            json({{"key", "L3IvbGVhZGVy"}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "5"}}));
  EXPECT_EQ(body["success"][0]["request_put"], json({{"key", "L3IvYQ=="}, {"value", "dmFsdWU="}, {"lease", "9"}}));
  EXPECT_EQ(body["success"][1]["request_delete_range"], json({{"key", "L3IvYg=="}}));
  EXPECT_EQ(body["failure"][0]["request_range"], json({{"key", "L3IvbGVhZGVy"}}));
}

// As etcd 3.4 has answered.
TEST(EtcdJsonTest, AnswersOfEtcdAreRead) {
  const auto refused = EtcdReplyOf(
      RequestOf(kv::Transact{}), "/",
      R"({"header":{"revision":"3"},"responses":[{"response_range":{"kvs":[{"key":"L2E=","create_revision":"2",)"
      R"("mod_revision":"3","version":"1","value":"YQ==","lease":"123"}],"count":"1"}}]})");
  ASSERT_TRUE(refused.ok()) << refused.status().text();
  EXPECT_FALSE(refused.value().succeeded);
  EXPECT_EQ(refused.value().number, 7U);
  ASSERT_EQ(refused.value().entries.size(), 1U);
  const kv::Entry& entry = refused.value().entries[0];
  EXPECT_EQ(entry.key, "a");
  EXPECT_EQ(entry.value, "a");
  EXPECT_EQ(entry.created, 2);
  EXPECT_EQ(entry.changed, 3);
  const auto done = EtcdReplyOf(RequestOf(kv::Transact{}), "/",
                                R"({"header":{"revision":"2"},"succeeded":true,"responses":[{"response_put":{}}]})");
  EXPECT_TRUE(done.ok() && done.value().succeeded && done.value().revision == 2);
  const std::string renewed = R"({"result":{"header":{"revision":"1"},"ID":"123","TTL":"2"}})";
  EXPECT_TRUE(EtcdReplyOf(RequestOf(kv::Renew{123}), "/", renewed).value().succeeded);
  const std::string ended = R"({"result":{"header":{"revision":"1"},"ID":"123"}})";
  EXPECT_FALSE(EtcdReplyOf(RequestOf(kv::Renew{123}), "/", ended).value().succeeded);
  const auto error = EtcdReplyOf(RequestOf(kv::List{}), "/", R"({"error":"etcdserver: no\nleader","code":14})");
  EXPECT_EQ(error.status().code(), Code::kIo);
  EXPECT_EQ(error.status().text(), "etcdserver: no?leader");
}

// What it would take to parse them is many times their size.
TEST(EtcdJsonTest, AnswerThatIsDeepOrOfTooManyPartsIsRefusedUnparsed) {
  const auto listed = [](const std::string& more) {
    return EtcdReplyOf(RequestOf(kv::List{}), kPrefix, R"({"header":{"revision":"1"},"x":)" + more + "}").status();
  };
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
  };
  const auto parts = [](std::size_t count) {
    std::string out = "[0";
    while (--count > 0) out += ",0";
    return out + "]";
  };
  EXPECT_TRUE(listed(nested(7)).ok());
  EXPECT_EQ(listed(nested(8)).code(), Code::kProtocol);
  EXPECT_TRUE(listed(parts(1 << 19)).ok());
  EXPECT_EQ(listed(parts(1 << 20)).code(), Code::kProtocol);
  EXPECT_TRUE(listed("\"" + std::string(100, '[') + R"(\\\"[[[[[[[[[[[[")").ok()) << "in a text they are text";
  EXPECT_EQ(EtcdErrorIn(std::string(std::size_t{60} << 20, '[')).size(), 200U);
}

TEST(EtcdJsonTest, WhatIsNoAnswerIsRefused) {
  const std::vector<decltype(kv::Request::what)> requests = {kv::Transact{}, kv::List{}, kv::Grant{5, 2}, kv::Renew{5}};
  for (const auto& what : requests) {
    for (
        const char* body :
        {"", "x", "[]", "null", "7", "{}", "\xff\xfe", R"({"header":7})", R"({"header":{"revision":-1}})",
         R"({"header":{"revision":"1e9"}})", R"({"header":{"revision":"99999999999999999999"}})",
         R"({"header":{"revision":"2"},"kvs":7,"responses":7,"ID":"6","result":[]})",
         R"({"header":{"revision":"2"},"kvs":[7],"responses":[{"response_range":{"kvs":[7]}}]})",
         R"({"header":{"revision":"2"},"kvs":[{"key":"####"}],"responses":[{"response_range":{"kvs":[{"key":"####"}]}}]})",
         R"({"header":{"revision":"2"},"succeeded":"yes","more":true,"kvs":[{"key":"L2E=","value":{}}]})"}) {
      EXPECT_EQ(EtcdReplyOf(RequestOf(what), "/", body).status().code(), Code::kProtocol) << body;
    }
  }
}

TEST(EtcdJsonTest, TokenThatNoHeaderCanCarryIsRefused) {
  EXPECT_EQ(EtcdTokenIn(R"({"token":"abc.5"})").value(), "abc.5");
  for (const char* body : {"", "{}", R"({"token":7})", R"({"token":""})", R"({"token":"a\r\nHost: b"})"}) {
    EXPECT_FALSE(EtcdTokenIn(body).ok()) << body;
  }
}

}  // namespace
}  // namespace ringway
