// A host's part when all hosts of a job are examined together: it connects to the first host like the
// processes of a run, reports its findings, and does what it is asked to. The first host is examined like any
// other.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/peer/peer.h"

namespace paceline::cli {

struct ExaminedHost {
  peer::PeerOptions reach;
  std::string address;      // this host's address, for links with the others
  wire::DoctorHello hello;  // the preflights are added here
};

// The last answer of the first host: OK, or what has to be fixed, or why it refused this host. Errors: it
// could not be reached, or was lost.
absl::StatusOr<wire::Disconnect> report_to_first_host(ExaminedHost options);

}  // namespace paceline::cli
