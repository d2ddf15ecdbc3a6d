#include "master/shell/etcd_json.h"

#include <openssl/evp.h>

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "proto/printable.h"

namespace ringway {
namespace {

using nlohmann::json;

constexpr std::size_t kTextMax = 200;
constexpr std::size_t kListBytesMax = 64 << 20;
constexpr int kDepthMax = 8;
constexpr std::size_t kPartsMax = 1 << 20;  // an entry takes six

std::string Encoded(const std::string& bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and a NUL
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

std::optional<std::string> Decoded(const std::string& text) {
  if (text.empty()) return "";
  std::string out(text.size(), '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  if (static_cast<std::size_t>(length) < padding) return std::nullopt;
  out.resize(static_cast<std::size_t>(length) - padding);
  return out;
}

// The smallest key that does not begin with the prefix.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // all keys
  ++prefix.back();
  return prefix;
}

// ---- what is asked

struct Caller {
  const std::string& prefix;

  std::string Key(const std::string& key) const { return Encoded(prefix + key); }
  EtcdCall operator()(const kv::Transact& transact) const {
    json compare = json::array(), success = json::array(), failure = json::array();
    for (const kv::Compare& one : transact.compare) {
      const bool created = one.of == kv::Compare::Of::kCreated;
      compare.push_back({{"key", Key(one.key)},
                         {"result", "EQUAL"},
                         {"target", created ? "CREATE" : "MOD"},
                         {created ? "create_revision" : "mod_revision", std::to_string(one.revision)}});
    }
    for (const kv::Put& put : transact.puts) {
      success.push_back(
          {{"request_put",
            {{"key", Key(put.key)}, {"value", Encoded(put.value)}, {"lease", std::to_string(put.lease)}}}});
    }
    for (const std::string& key : transact.erase) success.push_back({{"request_delete_range", {{"key", Key(key)}}}});
    for (const std::string& key : transact.get) failure.push_back({{"request_range", {{"key", Key(key)}}}});
    return {"/v3/kv/txn", json({{"compare", compare}, {"success", success}, {"failure", failure}}).dump()};
  }
  EtcdCall operator()(const kv::List&) const {
    return {"/v3/kv/range", json({{"key", Encoded(prefix)}, {"range_end", Encoded(EndOf(prefix))}}).dump()};
  }
  EtcdCall operator()(const kv::Grant& grant) const {
    return {"/v3/lease/grant",
            json({{"ID", std::to_string(grant.lease)}, {"TTL", std::to_string(grant.seconds)}}).dump()};
  }
  EtcdCall operator()(const kv::Renew& renew) const {
    return {"/v3/lease/keepalive", json({{"ID", std::to_string(renew.lease)}}).dump()};
  }
  EtcdCall operator()(const kv::Revoke& revoke) const {
    return {"/v3/lease/revoke", json({{"ID", std::to_string(revoke.lease)}}).dump()};
  }
};

// ---- what is answered

// Returns whether it is nested no deeper, and into no more parts, than an answer. Text that is no JSON may be, too.
bool IsShallow(const std::string& text) {
  int depth = 0;
  std::size_t parts = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char one = text[i];
    if (in_string) {
      if (one == '\\') ++i;  // and what it escapes
      if (one == '"') in_string = false;
    } else if (one == '"') {
      in_string = true;
    } else if (one == '[' || one == '{' || one == ',') {
      if (one != ',' && ++depth > kDepthMax) return false;
      if (++parts > kPartsMax) return false;
    } else if (one == ']' || one == '}') {
      --depth;
    }
  }
  return true;
}

// Discarded if it is no JSON, or too much of it.
json Parsed(const std::string& text) {
  return IsShallow(text) ? json::parse(text, nullptr, false) : json(json::value_t::discarded);
}

// Null if it is not there, or `value` is no object.
const json& At(const json& value, const char* key) {
  static const json kNull;
  if (!value.is_object()) return kNull;
  const auto found = value.find(key);
  return found == value.end() ? kNull : *found;
}

// 0 where it is absent, as etcd leaves out what is 0; nothing if it is no number.
std::optional<std::int64_t> NumberAt(const json& value, const char* key) {
  const json& number = At(value, key);
  if (number.is_null()) return 0;
  if (number.is_number_integer()) return number.get<std::int64_t>();
  if (!number.is_string()) return std::nullopt;
  const auto& text = number.get_ref<const std::string&>();
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Status NoAnswer(const char* why) {
  return {Code::kProtocol, std::string("it answers as no etcd does (") + why + "): look at the address in --store"};
}

Status AddEntries(const json& range, const std::string& prefix, kv::Reply* reply) {
  const json& kvs = At(range, "kvs");
  if (kvs.is_null()) return Status::Ok();
  if (!kvs.is_array()) return NoAnswer("kvs");
  for (const json& one : kvs) {
    const json& key = At(one, "key");
    const json& value = At(one, "value");  // absent if it is empty
    if (!key.is_string() || !(value.is_string() || value.is_null())) return NoAnswer("a key or a value");
    std::optional<std::string> key_bytes = Decoded(key.get_ref<const std::string&>());
    std::optional<std::string> value_bytes = value.is_null() ? "" : Decoded(value.get_ref<const std::string&>());
    const auto created = NumberAt(one, "create_revision");
    const auto changed = NumberAt(one, "mod_revision");
    if (!key_bytes || !key_bytes->starts_with(prefix) || !value_bytes || !created || !changed)
      return NoAnswer("an entry");
    reply->entries.push_back({key_bytes->substr(prefix.size()), std::move(*value_bytes), *created, *changed});
  }
  return Status::Ok();
}

struct Reader {
  const std::string& prefix;
  const json& answer;
  kv::Reply* reply;

  Status Revision() const {
    const std::optional<std::int64_t> revision = NumberAt(At(answer, "header"), "revision");
    if (!revision || *revision <= 0) return NoAnswer("no revision");
    reply->revision = *revision;
    return Status::Ok();
  }
  Status operator()(const kv::Transact&) const {
    const json& succeeded = At(answer, "succeeded");
    if (!succeeded.is_null() && !succeeded.is_boolean()) return NoAnswer("succeeded");
    reply->succeeded = succeeded.is_boolean() && succeeded.get<bool>();
    if (Status status = Revision(); !status.ok() || reply->succeeded) return status;
    const json& responses = At(answer, "responses");
    if (!responses.is_array()) return NoAnswer("responses");
    for (const json& one : responses) {
      if (Status status = AddEntries(At(one, "response_range"), prefix, reply); !status.ok()) return status;
    }
    return Status::Ok();
  }
  Status operator()(const kv::List&) const {
    if (Status status = Revision(); !status.ok()) return status;
    if (At(answer, "more") == true) return NoAnswer("a part of the entries");
    reply->succeeded = true;
    return AddEntries(answer, prefix, reply);
  }
  Status operator()(const kv::Grant& grant) const {
    reply->succeeded = NumberAt(answer, "ID") == grant.lease;
    return reply->succeeded ? Status::Ok() : NoAnswer("another lease");
  }
  Status operator()(const kv::Renew& renew) const {
    const json& result = At(answer, "result");
    if (NumberAt(result, "ID") != renew.lease) return NoAnswer("another lease");
    const std::optional<std::int64_t> seconds = NumberAt(result, "TTL");
    if (!seconds) return NoAnswer("TTL");
    reply->succeeded = *seconds > 0;
    return Status::Ok();
  }
  Status operator()(const kv::Revoke&) const { return Status::Ok(); }
};

}  // namespace

std::size_t EtcdAnswerBytesMax(const kv::Request& request) {
  return std::holds_alternative<kv::List>(request.what) ? kListBytesMax : kEtcdSmallAnswerBytesMax;
}

EtcdCall EtcdCallOf(const kv::Request& request, const std::string& prefix) {
  return std::visit(Caller{prefix}, request.what);
}

Result<kv::Reply> EtcdReplyOf(const kv::Request& request, const std::string& prefix, const std::string& body) {
  const json answer = Parsed(body);
  if (!answer.is_object()) return NoAnswer("no JSON object");
  if (answer.contains("error")) return Status(Code::kIo, EtcdErrorIn(body));
  kv::Reply reply{.number = request.number};
  if (Status status = std::visit(Reader{prefix, answer, &reply}, request.what); !status.ok()) return status;
  return reply;
}

EtcdCall EtcdLogin(const std::string& user, const std::string& password) {
  return {"/v3/auth/authenticate",
          json({{"name", user}, {"password", password}}).dump(-1, ' ', false, json::error_handler_t::replace)};
}

Result<std::string> EtcdTokenIn(const std::string& body) {
  const json answer = Parsed(body);
  const json& token = At(answer, "token");
  if (!token.is_string() || token.get_ref<const std::string&>().empty()) return NoAnswer("no token");
  for (const char one : token.get_ref<const std::string&>()) {
    if (one <= ' ' || one > '~') return NoAnswer("a token that no header can carry");
  }
  return token.get<std::string>();
}

std::string EtcdErrorIn(const std::string& body) {
  const json answer = Parsed(body);
  const json& error = At(answer, "error");
  const json& message = error.is_object() ? At(error, "message") : error;
  const std::string text = message.is_string() ? message.get<std::string>() : body;
  return Printable(text.substr(0, kTextMax));
}

}  // namespace ringway
