#include "proto/tls/authority.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/stream/unique_fd.h"
#include "proto/tls/ledger.h"
#include "proto/tls/pem.h"
#include "proto/tls/revocations.h"

namespace ringway::tls {
namespace {

using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Extension = std::pair<int, std::string>;  // NID, value in OpenSSL's notation

constexpr int kSerialBits = 159;
constexpr mode_t kKeyMode = 0600;
constexpr mode_t kCertificateMode = 0644;

void FreeText(char* text) { OPENSSL_free(text); }

std::string AuthorityPath(const std::string& dir) { return dir + "/ca.pem"; }
std::string AuthorityKeyPath(const std::string& dir) { return dir + "/ca.key"; }

Status OpensslFailure() { return {Code::kInternal, "OpenSSL: " + TakeOpensslError()}; }

Status SystemFailure(const std::string& what) {
  return {Code::kIo, what + ": " + std::error_code(errno, std::generic_category()).message()};
}

std::string TextOf(BIO* bio) {
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<std::size_t>(count)};
}

// Writes a new file, which is whole or not there.
Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid() && errno == EEXIST) {
    return {Code::kInvalidArgument, path + " is there already and is not overwritten: move it away first"};
  }
  if (!fd.valid()) return SystemFailure("cannot write " + path);
  errno = ENOSPC;  // of a write that is cut short
  const bool written = ::fchmod(fd.get(), mode) == 0 &&
                       ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd.get()) == 0;
  if (written) return Status::Ok();
  Status failure = SystemFailure("cannot write " + path);
  ::unlink(path.c_str());
  return failure;
}

Status SetTime(ASN1_TIME* time, std::chrono::seconds from_now) {
  return X509_gmtime_adj(time, from_now.count()) == nullptr ? OpensslFailure() : Status::Ok();
}

Status SetSerial(X509* certificate) {
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(BN_new());
  const bool set = number != nullptr && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                   BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
  return set ? Status::Ok() : OpensslFailure();
}

Status Add(X509* certificate, X509* issuer, std::initializer_list<Extension> extensions) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const auto& [nid, value] : extensions) {
    const std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) return OpensslFailure();
  }
  return Status::Ok();
}

struct Pair {
  Certificate certificate;
  Key key;
};

// Everything but issuer, extensions and signature.
Result<Pair> Begin(const std::string& common_name, const Validity& validity) {
  Pair pair{.certificate = Certificate(X509_new()), .key = Key(EVP_EC_gen("P-256"))};
  X509* certificate = pair.certificate.get();
  if (certificate == nullptr || pair.key == nullptr || X509_set_version(certificate, X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate, pair.key.get()) != 1 ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0) != 1) {
    return OpensslFailure();
  }
  for (const Status& status : {SetSerial(certificate), SetTime(X509_getm_notBefore(certificate), validity.begins),
                               SetTime(X509_getm_notAfter(certificate), validity.ends)}) {
    if (!status.ok()) return status;
  }
  return pair;
}

Status Write(const Pair& pair, const std::string& certificate_path, const std::string& key_path) {
  const Bio certificate(BIO_new(BIO_s_mem()));
  const Bio key(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate.get(), pair.certificate.get()) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key.get(), pair.key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpensslFailure();
  }
  if (::access(certificate_path.c_str(), F_OK) == 0) {
    return {Code::kInvalidArgument, certificate_path + " is there already and is not overwritten: move it away first"};
  }
  if (Status status = WriteNew(key_path, TextOf(key.get()), kKeyMode); !status.ok()) return status;
  Status status = WriteNew(certificate_path, TextOf(certificate.get()), kCertificateMode);
  if (!status.ok()) ::unlink(key_path.c_str());
  return status;
}

Result<Bio> OpenOfAuthority(const std::string& path, const std::string& dir) {
  Bio file(BIO_new_file(path.c_str(), "r"));
  if (file != nullptr) return file;
  ERR_clear_error();
  return Status(Code::kInvalidArgument,
                "cannot read " + path + ": make an authority with ringwayctl certs init " + dir);
}

Result<Pair> ReadAuthority(const std::string& dir) {
  const Result<Bio> certificate = OpenOfAuthority(AuthorityPath(dir), dir);
  if (!certificate.ok()) return certificate.status();
  const Result<Bio> key = OpenOfAuthority(AuthorityKeyPath(dir), dir);
  if (!key.ok()) return key.status();
  Pair pair{.certificate = Certificate(PEM_read_bio_X509(certificate.value().get(), nullptr, nullptr, nullptr)),
            .key = Key(PEM_read_bio_PrivateKey(key.value().get(), nullptr, nullptr, nullptr))};
  ERR_clear_error();
  if (pair.certificate == nullptr) return Status(Code::kInvalidArgument, AuthorityPath(dir) + " holds no certificate");
  if (pair.key == nullptr) return Status(Code::kInvalidArgument, AuthorityKeyPath(dir) + " holds no private key");
  if (X509_check_private_key(pair.certificate.get(), pair.key.get()) != 1) {
    ERR_clear_error();
    return Status(Code::kInvalidArgument, AuthorityKeyPath(dir) + " is not the key of " + AuthorityPath(dir));
  }
  return pair;
}

Status MakeDirectory(const std::string& dir) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(dir, error);
  if (error) return {Code::kIo, "cannot make the directory " + dir + ": " + error.message()};
  if (made) ::chmod(dir.c_str(), S_IRWXU);
  return Status::Ok();
}

std::string Hex(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

std::string RandomLabel() {
  std::array<unsigned char, 4> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) ERR_clear_error();
  return Hex(bytes);
}

// Checks that the ca.pem in `dir`, if there is one, begins with the certificate `ca`.
Status CheckAuthorityIn(const std::string& dir, const X509* ca) {
  const std::string path = AuthorityPath(dir);
  const Bio file(BIO_new_file(path.c_str(), "r"));
  const Certificate there(file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (file == nullptr || (there != nullptr && X509_cmp(there.get(), ca) == 0)) return Status::Ok();
  return {Code::kInvalidArgument, path + " is of another authority: give another directory with --out"};
}

std::string NameText(const X509_NAME* name) {
  const Bio text(BIO_new(BIO_s_mem()));
  (void)X509_NAME_print_ex(text.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  return TextOf(text.get());
}

std::string Fingerprint(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  (void)X509_digest(certificate, EVP_sha256(), digest.data(), &bytes);
  return Hex(std::span(digest).first(bytes));
}

// ---- what was issued, and what is revoked

// Takes the place of what is there, if anything, in one step.
Status Replace(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new" + std::to_string(::getpid());
  ::unlink(draft.c_str());
  if (Status status = WriteNew(draft, text, kCertificateMode); !status.ok()) return status;
  if (::rename(draft.c_str(), path.c_str()) == 0) return Status::Ok();
  Status failure = SystemFailure("cannot write " + path);
  ::unlink(draft.c_str());
  return failure;
}

std::string SerialOf(const ASN1_INTEGER* serial) {
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(ASN1_INTEGER_to_BN(serial, nullptr));
  const std::unique_ptr<char, Freer<FreeText>> text(number == nullptr ? nullptr : BN_bn2hex(number.get()));
  if (text == nullptr) return "";
  const std::string digits = text.get();
  return digits.size() < kSerialDigits ? std::string(kSerialDigits - digits.size(), '0') + digits : digits;
}

// Returns the certificate in the file `who`, or those issued to that name.
Result<Ledger::Found> FindIssued(const Ledger& ledger, const std::string& dir, X509* ca, const std::string& who) {
  const Bio file(BIO_new_file(who.c_str(), "r"));
  const Certificate one(file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (one != nullptr) {
    if (X509_verify(one.get(), X509_get0_pubkey(ca)) != 1 || X509_check_ca(one.get()) > 0) {
      ERR_clear_error();
      return Status(Code::kInvalidArgument, who + " is no certificate that " + AuthorityPath(dir) + " has issued");
    }
    const std::optional<Identity> identity = IdentityOf(one.get());
    const std::string serial = SerialOf(X509_get0_serialNumber(one.get()));
    return Ledger::Found{.issued = {{serial, identity ? ToString(*identity) : who}}};
  }
  Ledger::Found found = ledger.Find(who);
  if (!found.issued.empty()) return found;
  return Status(Code::kInvalidArgument,
                ledger.path() + " has no certificate of " + who + ": give the file of the certificate, as NAME.pem");
}

Status AddRevoked(X509_CRL* list, const std::string& serial) {
  BIGNUM* parsed = nullptr;
  const bool is_number = BN_hex2bn(&parsed, serial.c_str()) == static_cast<int>(serial.size()) && parsed != nullptr;
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(parsed);
  if (!is_number) return {Code::kInvalidArgument, "'" + serial + "' is no serial number"};
  const std::unique_ptr<ASN1_INTEGER, Freer<ASN1_INTEGER_free>> integer(BN_to_ASN1_INTEGER(number.get(), nullptr));
  X509_REVOKED* there = nullptr;
  if (integer != nullptr && X509_CRL_get0_by_serial(list, &there, integer.get()) == 1) return Status::Ok();
  const std::unique_ptr<ASN1_TIME, Freer<ASN1_TIME_free>> now(X509_gmtime_adj(nullptr, 0));
  std::unique_ptr<X509_REVOKED, Freer<X509_REVOKED_free>> entry(X509_REVOKED_new());
  if (integer == nullptr || now == nullptr || entry == nullptr ||
      X509_REVOKED_set_serialNumber(entry.get(), integer.get()) != 1 ||
      X509_REVOKED_set_revocationDate(entry.get(), now.get()) != 1 || X509_CRL_add0_revoked(list, entry.get()) != 1) {
    return OpensslFailure();
  }
  (void)entry.release();  // the list's
  return Status::Ok();
}

// The list at `path`, with nothing on it where there is none. What was revoked before must stay so.
Result<RevocationList> ReadList(const std::string& path, X509* ca) {
  Result<std::vector<RevocationList>> lists = ReadRevocations(path);
  if (!lists.ok()) return lists.status();
  if (lists.value().empty()) {
    RevocationList fresh(X509_CRL_new());
    if (fresh == nullptr) return OpensslFailure();
    return fresh;
  }
  if (lists.value().size() > 1) {
    return Status(Code::kInvalidArgument,
                  path + " holds several lists: keep here that of this authority alone, and join lists for the hosts");
  }
  if (!IsSignedBy(lists.value().front().get(), ca)) {
    return Status(Code::kInvalidArgument, path + " is no revocation list of this authority: restore it");
  }
  return std::move(lists.value().front());
}

// Sets all but the entries anew, and signs.
Status Sign(X509_CRL* list, const Pair& authority) {
  X509* ca = authority.certificate.get();
  const std::unique_ptr<ASN1_TIME, Freer<ASN1_TIME_free>> from(
      X509_gmtime_adj(nullptr, -std::chrono::seconds(kClocksDiffer).count()));
  const bool is_set = from != nullptr && X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
                      X509_CRL_set_issuer_name(list, X509_get_subject_name(ca)) == 1 &&
                      X509_CRL_set1_lastUpdate(list, from.get()) == 1 &&
                      X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(ca)) == 1 && X509_CRL_sort(list) == 1 &&
                      X509_CRL_sign(list, authority.key.get(), EVP_sha256()) > 0;
  return is_set ? Status::Ok() : OpensslFailure();
}

}  // namespace

Validity ValidFor(std::chrono::days days) { return {.begins = -kClocksDiffer, .ends = days}; }

CredentialFiles FilesOf(const std::string& dir, const std::string& name) {
  return {.ca = AuthorityPath(dir), .cert = dir + "/" + name + ".pem", .key = dir + "/" + name + ".key"};
}

Status InitAuthority(const std::string& dir, const Validity& validity) {
  if (Status status = MakeDirectory(dir); !status.ok()) return status;
  Result<Pair> pair = Begin("Ringway CA " + RandomLabel(), validity);
  if (!pair.ok()) return pair.status();
  X509* certificate = pair.value().certificate.get();
  if (X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1) return OpensslFailure();
  if (Status status = Add(certificate, certificate,
                          {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                           {NID_key_usage, "critical,keyCertSign,cRLSign"},
                           {NID_subject_key_identifier, "hash"}});
      !status.ok()) {
    return status;
  }
  if (X509_sign(certificate, pair.value().key.get(), EVP_sha256()) == 0) return OpensslFailure();
  return Write(pair.value(), AuthorityPath(dir), AuthorityKeyPath(dir));
}

Status Issue(const IssueDirectories& where, const Identity& identity, const Validity& validity) {
  const std::string& dir = where.dir;
  if (!IsIdentityName(identity.name) || identity.name == "ca" || identity.name == "crl") {
    return {Code::kInvalidArgument, "'" + identity.name +
                                        "' cannot be a name: give 1 to 63 letters, digits, '.', '_' and '-', not "
                                        "beginning with '.' or '-', and not 'ca' or 'crl'"};
  }
  const Result<Pair> authority = ReadAuthority(dir);
  if (!authority.ok()) return authority.status();
  X509* ca = authority.value().certificate.get();
  const ASN1_TIME* ca_ends = X509_get0_notAfter(ca);
  if (X509_cmp_current_time(ca_ends) <= 0) {
    return {Code::kInvalidArgument,
            AuthorityPath(dir) + " ended on " + ToDate(ca_ends) + ": make a new authority in another directory"};
  }
  Result<Pair> pair = Begin(identity.name, validity);
  if (!pair.ok()) return pair.status();
  X509* certificate = pair.value().certificate.get();
  if (ASN1_TIME_compare(X509_get0_notAfter(certificate), ca_ends) > 0 &&
      X509_set1_notAfter(certificate, ca_ends) != 1) {
    return OpensslFailure();
  }
  if (X509_set_issuer_name(certificate, X509_get_subject_name(ca)) != 1) return OpensslFailure();
  if (Status status = Add(certificate, ca,
                          {{NID_basic_constraints, "critical,CA:FALSE"},
                           {NID_key_usage, "critical,digitalSignature"},
                           {NID_ext_key_usage, "serverAuth,clientAuth"},
                           {NID_subject_alt_name, "URI:" + ToUri(identity) + ",DNS:" + identity.name},
                           {NID_subject_key_identifier, "hash"},
                           {NID_authority_key_identifier, "keyid:always"}});
      !status.ok()) {
    return status;
  }
  if (X509_sign(certificate, authority.value().key.get(), EVP_sha256()) == 0) return OpensslFailure();
  if (Status status = MakeDirectory(where.out); !status.ok()) return status;
  if (Status status = CheckAuthorityIn(where.out, ca); !status.ok()) return status;
  const Issued one{SerialOf(X509_get0_serialNumber(certificate)), ToString(identity)};
  Result<Ledger> ledger = Ledger::Open(dir);
  if (!ledger.ok()) return ledger.status();
  if (Status status = ledger.value().Add(one); !status.ok()) return status;
  const CredentialFiles files = FilesOf(where.out, identity.name);
  if (Status status = Write(pair.value(), files.cert, files.key); !status.ok()) return status;
  if (::access(files.ca.c_str(), F_OK) == 0) return Status::Ok();
  const Bio text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(text.get(), ca) != 1) return OpensslFailure();
  return WriteNew(files.ca, TextOf(text.get()), kCertificateMode);
}

Result<std::string> Revoke(const std::string& dir, const std::string& who) {
  const Result<Pair> authority = ReadAuthority(dir);
  if (!authority.ok()) return authority.status();
  X509* ca = authority.value().certificate.get();
  const Result<Ledger> ledger = Ledger::Open(dir);  // until the list is written
  if (!ledger.ok()) return ledger.status();
  const Result<Ledger::Found> revoked = FindIssued(ledger.value(), dir, ca, who);
  if (!revoked.ok()) return revoked.status();
  const std::string path = RevocationsBeside(AuthorityPath(dir));
  const Result<RevocationList> list = ReadList(path, ca);
  if (!list.ok()) return list.status();
  std::string text;
  if (const std::size_t torn = revoked.value().torn; torn > 0) {
    text = std::to_string(torn) + " lines of " + ledger.value().path() +
           " are torn: a certificate of such a line is revoked by its file\n";
  }
  for (const Issued& one : revoked.value().issued) {
    if (Status status = AddRevoked(list.value().get(), one.serial); !status.ok()) return status;
    text += one.who + ", serial number " + one.serial + "\n";
  }
  if (Status status = Sign(list.value().get(), authority.value()); !status.ok()) return status;
  const Bio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_CRL(out.get(), list.value().get()) != 1) return OpensslFailure();
  if (Status status = Replace(path, TextOf(out.get())); !status.ok()) return status;
  return text;
}

Result<std::string> Describe(const std::string& file) {
  const Bio bio(BIO_new_file(file.c_str(), "r"));
  const Certificate certificate(bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (bio == nullptr) return Status(Code::kInvalidArgument, "cannot read " + file);
  if (certificate == nullptr) return Status(Code::kInvalidArgument, file + " holds no certificate in PEM");
  X509* one = certificate.get();
  const std::optional<Identity> identity = IdentityOf(one);
  const ASN1_TIME* end = X509_get0_notAfter(one);
  std::string who = "nobody: it has no ringway://ROLE/NAME";
  if (identity) who = ToString(*identity);
  if (X509_check_ca(one) > 0) who = "a certificate authority";
  std::string until = ToDate(end) + " (" + std::to_string(DaysUntil(end)) + " days)";
  if (!IsCurrent(one)) until = ToDate(end) + " (not valid now)";
  return file + "\n  of           " + who + "\n  valid from   " + ToDate(X509_get0_notBefore(one)) +
         "\n  valid until  " + until + "\n  issued by    " + NameText(X509_get_issuer_name(one)) + "\n  sha256       " +
         Fingerprint(one) + "\n";
}

}  // namespace ringway::tls
