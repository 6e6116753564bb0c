// The certificates of a job: an authority of one's own, and one certificate for each role, as X.509 (RFC
// 5280) with P-256 keys. They prove who a process is (identity.h) to the other side of a TLS connection.
//
//   DIR/authority.crt, DIR/authority.key   its holder can make certificates: the key stays where it was made
//   DIR/JOB/authority.crt, ROLE.crt, ROLE.key, token   every host gets all: any host may have to lead
//
// Invariant: keys and tokens are readable by their owner only. No file is overwritten unless asked for, and
// then only once its replacement is written. A call that fails leaves nothing. If a process is killed in
// between, the next call finishes its work. Any thread.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/transport/security/identity.h"

namespace paceline::security {

struct CertificateRequest {
  std::filesystem::path dir;
  std::string job = "job";
  int days = 365;
  bool force = false;  // make the authority and this job's certificates anew, even if they exist
  // the validity of a new authority, at least `days`: it also signs renewed certificates
  int authority_days = 3650;
};

struct MadeCertificates {
  bool new_authority = false;
  std::filesystem::path of_job;  // DIR/JOB
  std::time_t expire = 0;        // when the first of them expires
};

// Makes an authority if there is none, and all certificates of a job. Errors: AlreadyExists if the job has
// some; FailedPrecondition if they would outlive the existing authority; the file system's.
absl::StatusOr<MadeCertificates> make_certificates(const CertificateRequest& request);

// The certificate that a process shows, and the authority by which it checks others. PEM texts.
struct Credentials {
  Identity own;
  std::string authority;
  std::string certificate;
  std::string key;
  std::time_t expire = 0;
};

// Reads them from a DIR/JOB. Errors: a file that is missing or no certificate; a key of another certificate;
// a certificate of another role, or that has expired, or whose authority has.
absl::StatusOr<Credentials> read_credentials(const std::filesystem::path& dir, Role role);

// True if the credentials expire within 30 days, so that it is time to make new ones.
bool end_soon(const Credentials& credentials, std::time_t now);

// "2027-11-21", UTC.
std::string day_of(std::time_t time);

}  // namespace paceline::security
