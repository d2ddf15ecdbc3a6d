#include "client/ctl/certs.h"

#include <iterator>

#include "proto/tls/authority.h"

namespace ringway::ctl {
namespace {

Result<std::string> Init(const CertsOrder& order) {
  const auto days = order.days == 0 ? tls::kAuthorityDays : std::chrono::days(order.days);
  if (Status status = tls::InitAuthority(order.dir, tls::ValidFor(days)); !status.ok()) return status;
  return order.dir + "/ca.pem is the certificate of the new authority: every process needs it\n" + order.dir +
         "/ca.key signs certificates: keep it here, and secret\n";
}

Result<std::string> IssueOne(const CertsOrder& order) {
  const Identity identity{.role = *ParseProcessRole(order.role), .name = order.name};
  const std::string out = order.out.empty() ? order.dir : order.out;
  const auto days = order.days == 0 ? tls::kCertificateDays : std::chrono::days(order.days);
  if (Status status = tls::Issue({.dir = order.dir, .out = out}, identity, tls::ValidFor(days)); !status.ok()) {
    return status;
  }
  const tls::CredentialFiles files = tls::FilesOf(out, order.name);
  return files.cert + " and " + files.key + " are those of " + ToString(identity) +
         ": copy them and ca.pem to its host\n";
}

Result<std::string> Revoke(const CertsOrder& order) {
  const Result<std::string> revoked = tls::Revoke(order.dir, order.name);
  if (!revoked.ok()) return revoked.status();
  return revoked.value() + "is revoked by " + order.dir +
         "/crl.pem: copy that beside ca.pem on the master's host and send SIGHUP to ringway-master first,\n"
         "then the same on every other host, to ringwayd: before the master knows, a connection that a daemon\n"
         "ends may cost the one at the other end its place\n"
         "a name finds what this release has issued: revoke certificates of ringwayctl 0.9 by their files\n";
}

Result<std::string> Show(const CertsOrder& order) {
  std::string out;
  for (const std::string& file : order.files) {
    const Result<std::string> text = tls::Describe(file);
    if (!text.ok()) return text.status();
    out += text.value();
  }
  return out;
}

}  // namespace

const CLI::App* AddCerts(CLI::App& app, CertsOrder* order) {
  CLI::App* certs = app.add_subcommand("certs", "makes and shows the certificates that --tls-dir reads");
  const auto add_days = [order](CLI::App* command, std::chrono::days normal) {
    command->add_option("--days", order->days, "how long it is valid")
        ->check(CLI::Range(1, static_cast<int>(tls::kDaysMax.count())))
        ->default_str(std::to_string(normal.count()));
  };
  CLI::App* init =
      certs->add_subcommand("init", "makes a certificate authority of your own: DIR/ca.pem and DIR/ca.key");
  init->add_option("DIR", order->dir, "directory, made where it is not there")->required();
  add_days(init, tls::kAuthorityDays);
  init->callback([order] { order->what = CertsOrder::What::kInit; });
  CLI::App* issue = certs->add_subcommand("issue", "makes the certificate of one process: NAME.pem and NAME.key");
  issue->add_option("NAME", order->name, "who it is; of a daemon this becomes its name")->required();
  issue->add_option("--role", order->role, "what it may be: master, daemon, or operator (of ringwayctl)")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kProcessRoleNames), std::end(kProcessRoleNames))));
  issue->add_option("--dir", order->dir, "directory of the authority")->required();
  issue->add_option("--out", order->out,
                    "directory to write to, with a copy of ca.pem (default: that of the authority)");
  add_days(issue, tls::kCertificateDays);
  issue->callback([order] { order->what = CertsOrder::What::kIssue; });
  CLI::App* revoke = certs->add_subcommand(
      "revoke", "no longer accepts certificates: DIR/crl.pem, which belongs beside ca.pem on every host");
  revoke->add_option("WHO", order->name, "the file of a certificate, or the name of all that were issued to it")
      ->required();
  revoke->add_option("--dir", order->dir, "directory of the authority")->required();
  revoke->callback([order] { order->what = CertsOrder::What::kRevoke; });
  CLI::App* show = certs->add_subcommand("show", "who certificates are of, and from when to when");
  show->add_option("FILE", order->files, "certificates in PEM")->required();
  certs->require_subcommand(1);
  return certs;
}

Result<std::string> Carry(const CertsOrder& order) {
  switch (order.what) {
    case CertsOrder::What::kInit:
      return Init(order);
    case CertsOrder::What::kIssue:
      return IssueOne(order);
    case CertsOrder::What::kRevoke:
      return Revoke(order);
    case CertsOrder::What::kShow:
      break;
  }
  return Show(order);
}

}  // namespace ringway::ctl
