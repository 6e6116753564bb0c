// [network] of a job: the address of its coordinator, and the credentials of every caller.
//
// Invariant: a job that other machines can reach has certificates, or says explicitly that it needs none; and
// it has a token that the other machines can know.
#pragma once

#include <string>

#include "paceline/formats/config/section.h"

namespace paceline::config {

struct Reach {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: any free one
  std::string certs;                   // a folder that `paceline certs` made; empty: no TLS
  std::string token_file;              // empty: the run makes a token of its own
};

Reach read_reach(Section section);

// [monitor] of a job: the address at which its metrics are served, HOST:PORT; empty: none.
std::string read_monitor(Section section);

// Whether only processes of this machine can connect to the address (HOST:PORT).
bool is_loopback(const std::string& address);

}  // namespace paceline::config
