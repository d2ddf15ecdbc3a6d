#include "proto/shell/tls_keeper.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <sstream>

#include "tests/proto/tls/certificates.h"

namespace ringway::shell {
namespace {

using std::chrono::seconds;

// Captures what is logged while it lives.
class LogCapture {
 public:
  LogCapture() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  bool Has(const std::string& word) const { return lines_.str().find(word) != std::string::npos; }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream lines_;
};

TEST(TlsKeeperTest, WarnsAheadAndSaysWhenTheEndHasCome) {
  const tls::TestAuthority authority;
  const auto files = authority.Issued({.name = "node"}, {.begins = seconds(-60), .ends = seconds(4)});
  auto credentials = tls::Credentials::Load(files);
  ASSERT_TRUE(credentials.ok()) << credentials.status().text();
  const LogCapture log;
  asio::io_context loop;
  TlsKeeper keeper(loop,
                   {.files = files, .security = std::make_shared<tls::TlsSecurity>(std::move(credentials.value()))});
  keeper.Start();
  EXPECT_TRUE(log.Has("tls_ends_soon"));
  EXPECT_FALSE(log.Has("tls_ended"));
  const auto patience = std::chrono::steady_clock::now() + seconds(60);
  while (!log.Has("tls_ended") && std::chrono::steady_clock::now() < patience) loop.run_one_for(seconds(1));
  EXPECT_TRUE(log.Has("tls_ended"));
}

TEST(TlsKeeperTest, SaysHowManyAreRevokedAndWarnsWhereTheyAreFewer) {
  const tls::TestAuthority authority;
  const auto files = authority.Issued({.name = "node"});
  (void)authority.Issued({.name = "lost"});
  ASSERT_TRUE(tls::Revoke(authority.dir(), "lost").ok());
  const LogCapture log;
  asio::io_context loop;
  TlsKeeper keeper(
      loop, {.files = files, .security = std::make_shared<tls::TlsSecurity>(tls::Credentials::Load(files).value())});
  keeper.Start();
  EXPECT_TRUE(log.Has("revoked=1"));
  keeper.Reload();
  EXPECT_TRUE(log.Has("tls_reloaded"));
  EXPECT_FALSE(log.Has("tls_revoked_fewer"));
  std::filesystem::remove(tls::RevocationsBeside(files.ca));
  keeper.Reload();
  EXPECT_TRUE(log.Has("tls_revoked_fewer"));
  EXPECT_TRUE(log.Has("before=1"));
}

}  // namespace
}  // namespace ringway::shell
