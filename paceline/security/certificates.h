// The certificates of a job: an authority of one's own, and one certificate for each role, as X.509 (RFC
// 5280) with P-256 keys. They prove who a process is (identity.h) to the other side of a TLS connection.
//
//   DIR/authority.crt, DIR/authority.key   who has the key can make certificates: it stays where it was made
//   DIR/JOB/authority.crt, ROLE.crt, ROLE.key, token   what hosts get, each all of it: any may come to lead
//
// Invariant: keys and tokens are readable by their owner only; nothing that is there is overwritten
// unless asked for, and then only once what replaces it is written. What fails leaves nothing. Where a
// process is killed in between, the next one finishes its work. Any thread.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/security/identity.h"

namespace paceline::security {

struct CertificateRequest {
  std::filesystem::path dir;
  std::string job = "job";
  int days = 365;
  bool force = false;         // the authority and this job's certificates anew, whatever is there
  int authority_days = 3650;  // of a new one, or `days` if that is longer: it signs what is renewed too
};

struct MadeCertificates {
  bool new_authority = false;
  std::filesystem::path of_job;  // DIR/JOB
  std::time_t expire = 0;        // the first of them
};

// An authority if there is none, and all certificates of a job. Errors: AlreadyExists when the job has some;
// FailedPrecondition when they would outlive the authority that is there; what the file system says.
absl::StatusOr<MadeCertificates> make_certificates(const CertificateRequest& request);

// What one process shows, and holds others to. PEM texts.
struct Credentials {
  Identity own;
  std::string authority;
  std::string certificate;
  std::string key;
  std::time_t expire = 0;
};

// From a DIR/JOB. Errors: a file that is missing or no certificate; a key of another certificate; a
// certificate of another role, or that has expired, or whose authority has.
absl::StatusOr<Credentials> read_credentials(const std::filesystem::path& dir, Role role);

// Whether it is time to make new ones: they end within 30 days.
bool end_soon(const Credentials& credentials, std::time_t now);

// "2027-11-21", UTC.
std::string day_of(std::time_t time);

}  // namespace paceline::security
