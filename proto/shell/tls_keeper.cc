#include "proto/shell/tls_keeper.h"

#include <csignal>
#include <filesystem>
#include <utility>

#include "proto/shell/log.h"

namespace ringway::shell {
namespace {

constexpr char kRenew[] = "issue a new certificate with ringwayctl certs, then send SIGHUP";

}  // namespace

TlsKeeper::TlsKeeper(asio::io_context& loop, TlsSetup setup)
    : setup_(std::move(setup)), hang_up_(loop, SIGHUP), daily_(loop) {}

void TlsKeeper::Start() {
  Say("tls");
  std::error_code ignored;
  const std::filesystem::path secret = std::filesystem::path(setup_.files.ca).replace_extension(".key");
  if (std::filesystem::exists(secret, ignored)) {
    Log(Level::kWarning, "tls_authority_key",
        {{"file", secret.string()},
         {"text", "who reads it can be anybody: keep it where certificates are made alone"}});
  }
  Watch();
  Arm();
}

void TlsKeeper::Arm() {
  hang_up_.async_wait([this](asio::error_code error, int) {
    if (error) return;
    Arm();
    Reload();
  });
}

void TlsKeeper::Reload() {
  const std::size_t before = Revoked();
  const Status status = setup_.security->Reload(setup_.files);
  if (Revoked() < before) {
    Log(Level::kWarning, "tls_revoked_fewer",
        {{"before", std::to_string(before)},
         {"revoked", std::to_string(Revoked())},
         {"text", "unless an authority was taken out, copy crl.pem anew from where ringwayctl certs revoke made it"}});
  }
  if (!status.ok()) {
    return Log(Level::kError, "tls_reload_failed",
               {{"error", status.text()},
                {"revoked", std::to_string(Revoked())},
                {"effect", "the certificates read before stay in use"}});
  }
  Say("tls_reloaded");
  Watch();
}

void TlsKeeper::Say(const std::string& event) const {
  const auto credentials = setup_.security->credentials();
  Log(Level::kInfo, event,
      {{"identity", ToString(credentials->self())},
       {"certificate", setup_.files.cert},
       {"until", tls::ToDate(credentials->ends())},
       {"revoked", std::to_string(Revoked())}});
}

std::size_t TlsKeeper::Revoked() const { return setup_.security->credentials()->revocations()->count(); }

void TlsKeeper::Watch() {
  const auto credentials = setup_.security->credentials();
  const std::chrono::seconds left = tls::TimeUntil(credentials->ends());
  const std::string until = tls::ToDate(credentials->ends());
  if (left <= std::chrono::seconds(0)) {
    Log(Level::kError, "tls_ended",
        {{"until", until}, {"effect", "connections that stand go on, new ones are refused"}, {"text", kRenew}});
  } else if (left < kWarnDays) {
    Log(Level::kWarning, "tls_ends_soon",
        {{"until", until},
         {"days_left", std::to_string(std::chrono::floor<std::chrono::days>(left).count())},
         {"text", kRenew}});
  }
  constexpr std::chrono::seconds kDay = std::chrono::days(1);
  const bool ends_first = left > std::chrono::seconds(0) && left < kDay;
  daily_.After(ends_first ? left + std::chrono::seconds(1) : kDay, [this] { Watch(); });
}

}  // namespace ringway::shell
