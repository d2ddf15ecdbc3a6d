#include "proto/tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace ringway::tls {

Result<std::string> ReadPem(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string remedy = errno == EACCES ? "run as a user who may read it: root, or one of the group ringway"
                                               : "make certificates with ringwayctl certs";
    return Status(
        Code::kInvalidArgument,
        "cannot read " + path + ": " + std::error_code(errno, std::generic_category()).message() + "; " + remedy);
  }
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > bytes_max) return Status(Code::kInvalidArgument, path + " is too large for what it is");
  return text;
}

Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

bool ReadToTheEnd() { return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE; }

std::string TakeOpensslError() {
  std::array<char, 256> text{"unknown error"};
  const unsigned long error = ERR_get_error();
  if (error != 0) {
    const char* reason = ERR_reason_error_string(error);
    if (reason != nullptr) return ERR_clear_error(), reason;
    ERR_error_string_n(error, text.data(), text.size());
  }
  ERR_clear_error();
  return text.data();
}

}  // namespace ringway::tls
