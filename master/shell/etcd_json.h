// Requests to etcd as its gateway takes them: JSON over HTTP (v3 API), keys and values in base64, numbers as text.
//
// Pure. Whatever the answer holds is checked. Errors: kProtocol for what is no answer to the request; kIo with etcd's
// text for an error that it reports.
#pragma once

#include <string>

#include "master/leadership/kv.h"
#include "proto/result.h"

namespace ringway {

struct EtcdCall {
  std::string path;
  std::string body;
};

// Its keys are those of the request behind `prefix`.
EtcdCall EtcdCallOf(const kv::Request& request, const std::string& prefix);
// The answer's body. The reply has the request's number.
Result<kv::Reply> EtcdReplyOf(const kv::Request& request, const std::string& prefix, const std::string& body);

EtcdCall EtcdLogin(const std::string& user, const std::string& password);
Result<std::string> EtcdTokenIn(const std::string& body);

// What an error's body says, of at most 200 printable characters.
std::string EtcdErrorIn(const std::string& body);

}  // namespace ringway
