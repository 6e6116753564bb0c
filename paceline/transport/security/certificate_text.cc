#include "paceline/transport/security/certificate_text.h"

#include <fmt/format.h>
#include <openssl/pem.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/security/secret_file.h"

namespace paceline::security {

namespace {

std::string text_of(const Bio& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

template <class Parse>
auto read(const std::filesystem::path& path, const char* what, Parse parse)
    -> absl::StatusOr<decltype(parse(std::string()))> {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_small(path));
  auto parsed = parse(text);
  if (parsed != nullptr) return parsed;
  return absl::InvalidArgumentError(
      fmt::format("{}: not a {} in PEM; `paceline certs` makes one", path.string(), what));
}

}  // namespace

std::string to_pem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio);
}

std::string to_pem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio);
}

Certificate certificate_of(const std::string& pem) {
  Certificate certificate(PEM_read_bio_X509(bio_of(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

Key key_of(const std::string& pem) {
  // Without this OpenSSL would ask for a key's password on the terminal; keys here have none.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

absl::StatusOr<Certificate> read_certificate(const std::filesystem::path& path) {
  return read(path, "certificate", certificate_of);
}

absl::StatusOr<Key> read_key(const std::filesystem::path& path) { return read(path, "key", key_of); }

std::optional<Identity> identity_of(X509* certificate) {
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<Identity> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    const auto identity =
        identity_of(std::string_view(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                     static_cast<std::size_t>(ASN1_STRING_length(uri))));
    if (!identity || found) return std::nullopt;
    found = identity;
  }
  return found;
}

std::time_t expiry_of(X509* certificate) {
  std::tm time{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1 ? timegm(&time) : 0;
}

}  // namespace paceline::security
