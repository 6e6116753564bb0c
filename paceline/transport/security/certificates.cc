#include "paceline/transport/security/certificates.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/security/certificate_text.h"
#include "paceline/transport/security/openssl.h"
#include "paceline/transport/security/secret_file.h"
#include "paceline/transport/security/staged_files.h"
#include "paceline/transport/security/token.h"

namespace paceline::security {

namespace fs = std::filesystem;

namespace {

constexpr long kVersion3 = 2;
constexpr long kEarlierSeconds = 3600;  // hosts whose clocks are behind accept a certificate at once
constexpr long kSecondsOfDay = 86400;
constexpr int kSerialBytes = 16;

struct Signed {
  Certificate certificate;
  Key key;
};

absl::Status openssl_trouble(const char* what) {
  return absl::UnavailableError(fmt::format("cannot make {}: {}", what, openssl_error()));
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), kSerialBytes) != 1) return false;
  bytes[0] &= 0x7f;  // a positive number
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(bytes.data(), kSerialBytes, nullptr));
  return number != nullptr && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_name(X509* certificate, const std::string& name) {
  const auto* text = reinterpret_cast<const unsigned char*>(name.c_str());
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, text, -1, -1,
                                    0) == 1;
}

bool extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A certificate with a new key, and everything but extensions and signature.
absl::StatusOr<Signed> begin(const std::string& name, int days) {
  Signed made{Certificate(X509_new()), Key(EVP_EC_gen("P-256"))};
  X509* one = made.certificate.get();
  const bool good = one != nullptr && made.key != nullptr && X509_set_version(one, kVersion3) == 1 &&
                    set_serial(one) && set_name(one, name) &&
                    X509_gmtime_adj(X509_getm_notBefore(one), -kEarlierSeconds) != nullptr &&
                    X509_gmtime_adj(X509_getm_notAfter(one), days * kSecondsOfDay) != nullptr &&
                    X509_set_pubkey(one, made.key.get()) == 1;
  if (!good) return openssl_trouble("a certificate");
  return made;
}

bool sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  return X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

absl::StatusOr<Signed> make_authority(int days) {
  PACELINE_ASSIGN_OR_RETURN(Signed made, begin("Paceline authority", days));
  X509* one = made.certificate.get();
  const bool good = extend(one, one, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    extend(one, one, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    extend(one, one, NID_subject_key_identifier, "hash") && sign(one, one, made.key.get());
  if (!good) return openssl_trouble("an authority");
  return made;
}

// Other processes connect to a coordinator, and all other roles connect.
std::string purpose_of(Role role) { return role == Role::kCoordinator ? "serverAuth" : "clientAuth"; }

std::string names_of(const Identity& identity) {
  const std::string uri = "URI:" + uri_of(identity);
  return identity.role == Role::kCoordinator ? uri + ",DNS:" + coordinator_name(identity.job) : uri;
}

absl::StatusOr<Signed> make_one(const Identity& identity, const Signed& authority, int days) {
  PACELINE_ASSIGN_OR_RETURN(Signed made, begin(std::string(to_string(identity.role)), days));
  X509* one = made.certificate.get();
  X509* issuer = authority.certificate.get();
  const bool good = extend(one, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                    extend(one, issuer, NID_key_usage, "critical,digitalSignature") &&
                    extend(one, issuer, NID_ext_key_usage, purpose_of(identity.role)) &&
                    extend(one, issuer, NID_subject_alt_name, names_of(identity)) &&
                    extend(one, issuer, NID_subject_key_identifier, "hash") &&
                    extend(one, issuer, NID_authority_key_identifier, "keyid") &&
                    sign(one, issuer, authority.key.get());
  if (!good) return openssl_trouble("a certificate");
  return made;
}

absl::Status add(StagedFiles& files, const fs::path& base, const Signed& made) {
  PACELINE_RETURN_IF_ERROR(files.add(base.string() + ".key", to_pem(made.key.get()), kOwnerOnly));
  return files.add(base.string() + ".crt", to_pem(made.certificate.get()), kAnybodyReads);
}

absl::StatusOr<Signed> read_authority(const fs::path& dir) {
  Signed authority;
  PACELINE_ASSIGN_OR_RETURN(authority.certificate, read_certificate(dir / "authority.crt"));
  PACELINE_ASSIGN_OR_RETURN(authority.key, read_key(dir / "authority.key"));
  if (X509_check_private_key(authority.certificate.get(), authority.key.get()) == 1) return authority;
  return absl::InvalidArgumentError(
      fmt::format("{}: authority.crt and authority.key do not belong together", dir.string()));
}

// True for the names that a job file may use.
bool plain(const std::string& name) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name[0] != '.' && name.find_first_not_of(kPlain) == std::string::npos;
}

// A job's folder of this name would be one of the authority's files.
bool is_authority(const std::string& name) { return name == "authority.crt" || name == "authority.key"; }

// A certificate is only good as long as its authority is.
absl::Status check_outlives(X509* authority, const CertificateRequest& request) {
  const std::time_t end = expiry_of(authority);
  const long left = (end - std::time(nullptr)) / kSecondsOfDay;
  if (request.days <= left) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: ends on {}, before certificates of {} days would; write {}--force for a new "
                  "authority, and then make "
                  "the certificates of all other jobs again too",
                  (request.dir / "authority.crt").string(), day_of(end), request.days,
                  left > 0 ? fmt::format("--days {} at most, or ", left) : ""));
}

// A folder that may not be looked into has no such file. Writing into it fails, with the reason.
bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

absl::StatusOr<Signed> find_or_make_authority(const CertificateRequest& request, bool& made) {
  const bool any = is_there(request.dir / "authority.crt") || is_there(request.dir / "authority.key");
  made = request.force || !any;
  if (made) return make_authority(std::max(request.days, request.authority_days));
  PACELINE_ASSIGN_OR_RETURN(Signed found, read_authority(request.dir));
  PACELINE_RETURN_IF_ERROR(check_outlives(found.certificate.get(), request));
  return found;
}

// `renew`: how to get a new certificate.
absl::Status check_good(X509* certificate, const fs::path& file, const std::string& renew) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: is not valid yet; set this host's clock, or that of the host that made it", file.string()));
  }
  const std::time_t expire = expiry_of(certificate);
  if (expire >= std::time(nullptr)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: has expired on {}; {}", file.string(), day_of(expire), renew));
}

absl::Status add_job(StagedFiles& files, const CertificateRequest& request, const Signed& authority) {
  const fs::path job = request.job;
  for (const Role role : kRoles) {
    PACELINE_ASSIGN_OR_RETURN(const Signed made, make_one({request.job, role}, authority, request.days));
    PACELINE_RETURN_IF_ERROR(add(files, job / to_string(role), made));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string token, make_token());
  PACELINE_RETURN_IF_ERROR(files.add(job / "token", token + "\n", kOwnerOnly));
  return files.add(job / "authority.crt", to_pem(authority.certificate.get()), kAnybodyReads);
}

}  // namespace

absl::StatusOr<MadeCertificates> make_certificates(const CertificateRequest& request) {
  if (!plain(request.job)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is not a name for a job; write letters, digits, '-', '_' and '.', not first", request.job));
  }
  if (is_authority(request.job)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is the name of a file of the authority; choose another name for the job", request.job));
  }
  std::error_code error;
  const fs::file_status dir = fs::status(request.dir, error);
  if (fs::exists(dir) && !fs::is_directory(dir))
    return absl::InvalidArgumentError(fmt::format("{}: is a file; name a folder", request.dir.string()));
  PACELINE_RETURN_IF_ERROR(StagedFiles::finish(request.dir));
  MadeCertificates made;
  made.of_job = request.dir / request.job;
  if (!request.force && is_there(made.of_job / "authority.crt")) {
    return absl::AlreadyExistsError(
        fmt::format("{}: this job has certificates already; remove that folder to make new ones, or write "
                    "--force to replace the authority too",
                    made.of_job.string()));
  }
  PACELINE_ASSIGN_OR_RETURN(const Signed authority, find_or_make_authority(request, made.new_authority));
  PACELINE_ASSIGN_OR_RETURN(StagedFiles files, StagedFiles::in(request.dir));
  if (made.new_authority) PACELINE_RETURN_IF_ERROR(add(files, "authority", authority));
  PACELINE_RETURN_IF_ERROR(add_job(files, request, authority));
  PACELINE_RETURN_IF_ERROR(files.commit(request.force));
  PACELINE_ASSIGN_OR_RETURN(const Credentials one, read_credentials(made.of_job, Role::kCoordinator));
  made.expire = std::min(one.expire, expiry_of(authority.certificate.get()));
  return made;
}

absl::StatusOr<Credentials> read_credentials(const fs::path& dir, Role role) {
  const fs::path base = dir / to_string(role);
  const fs::path file = base.string() + ".crt";
  PACELINE_ASSIGN_OR_RETURN(const Certificate certificate, read_certificate(file));
  PACELINE_ASSIGN_OR_RETURN(const Key key, read_key(base.string() + ".key"));
  PACELINE_ASSIGN_OR_RETURN(const Certificate authority, read_certificate(dir / "authority.crt"));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return absl::InvalidArgumentError(fmt::format("{}: is not of the key beside it", file.string()));
  const auto own = identity_of(certificate.get());
  if (!own || own->role != role) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: is not the certificate of a {}; `paceline certs` makes one", file.string(), to_string(role)));
  }
  const std::string copy = fmt::format("and copy the new {} to all hosts", dir.string());
  PACELINE_RETURN_IF_ERROR(check_good(authority.get(), dir / "authority.crt",
                                      "make a new authority with `paceline certs --force`, " + copy));
  PACELINE_RETURN_IF_ERROR(check_good(
      certificate.get(), file,
      fmt::format("remove {}, run `paceline certs` as for the first ones, {}", dir.string(), copy)));
  return Credentials{*own, to_pem(authority.get()), to_pem(certificate.get()), to_pem(key.get()),
                     std::min(expiry_of(certificate.get()), expiry_of(authority.get()))};
}

bool end_soon(const Credentials& credentials, std::time_t now) {
  constexpr std::time_t kSoon_s = 30 * 86400;
  return credentials.expire < now + kSoon_s;
}

std::string day_of(std::time_t time) { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(time)); }

}  // namespace paceline::security
