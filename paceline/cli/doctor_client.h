// A host's part when all hosts of a job are examined together: it goes to the first host, as the processes of
// a run would, says what it found, and does what it is asked to. The first host is examined like any other.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/peer/peer.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::cli {

struct ExaminedHost {
  peer::PeerOptions reach;
  std::string address;      // of this host, for links with the others
  wire::DoctorHello hello;  // the preflights are added here
};

// What the first host said in the end: OK, or what has to be fixed, or why it took nothing of this host.
// Errors: it could not be reached, or was lost.
absl::StatusOr<wire::Disconnect> report_to_first_host(ExaminedHost options);

}  // namespace paceline::cli
