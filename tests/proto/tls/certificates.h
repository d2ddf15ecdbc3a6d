// Certificates for tests: an authority in a directory of the process, which goes with it, and what it issues.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proto/tls/authority.h"
#include "proto/tls/credentials.h"

namespace ringway::tls {

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void Overwrite(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

class TestAuthority {
 public:
  TestAuthority() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ringway_tls_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
    EXPECT_TRUE(InitAuthority(path_).ok());
  }
  ~TestAuthority() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  // Returns the authority of the process.
  static TestAuthority& Get() {
    static TestAuthority authority;
    return authority;
  }

  const std::string& dir() const { return path_; }
  CredentialFiles Issued(const Identity& identity, const Validity& validity = ValidFor(kCertificateDays)) const {
    const Status status = Issue({.dir = path_, .out = path_}, identity, validity);
    EXPECT_TRUE(status.ok()) << status.text();
    return FilesOf(path_, identity.name);
  }
  // Issued when first asked for.
  std::shared_ptr<Credentials> Of(const Identity& identity) {
    std::shared_ptr<Credentials>& known = known_[ToUri(identity)];
    if (known != nullptr) return known;
    const auto loaded = Credentials::Load(Issued(identity));
    EXPECT_TRUE(loaded.ok()) << loaded.status().text();
    return known = loaded.value();
  }

 private:
  std::string path_;
  std::map<std::string, std::shared_ptr<Credentials>> known_;
};

}  // namespace ringway::tls
