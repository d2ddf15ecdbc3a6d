// Requests to etcd as its gateway takes them: JSON over HTTP (v3 API), keys and values in base64, numbers as text.
//
// Pure. Whatever the answer holds is checked, and how deep and how finely it is divided before it is parsed: a parsed
// value takes many times its text. Errors: kProtocol for what is no answer to the request; kIo with etcd's text for an
// error that it reports.
#pragma once

#include <cstddef>
#include <string>

#include "master/leadership/kv.h"
#include "proto/result.h"

namespace ringway {

struct EtcdCall {
  std::string path;
  std::string body;
};

// The bound of an error, and of any answer but a list of all entries.
inline constexpr std::size_t kEtcdSmallAnswerBytesMax = 256 << 10;
// Returns the bound of the answer to this request.
std::size_t EtcdAnswerBytesMax(const kv::Request& request);

// Its keys are those of the request behind `prefix`.
EtcdCall EtcdCallOf(const kv::Request& request, const std::string& prefix);
// The answer's body. The reply has the request's number.
Result<kv::Reply> EtcdReplyOf(const kv::Request& request, const std::string& prefix, const std::string& body);

EtcdCall EtcdLogin(const std::string& user, const std::string& password);
Result<std::string> EtcdTokenIn(const std::string& body);

// What an error's body says, of at most 200 printable characters.
std::string EtcdErrorIn(const std::string& body);

}  // namespace ringway
