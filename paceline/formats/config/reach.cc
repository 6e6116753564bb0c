#include "paceline/formats/config/reach.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>

namespace paceline::config {

namespace {

constexpr int kMostPort = 65535;

bool is_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  int port = -1;
  return colon != std::string::npos && colon > 0 && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
         port >= 0 && port <= kMostPort;
}

void check(Section& section, const Reach& reach, bool open) {
  if (!is_address(reach.listen)) {
    section.complain("listen", "write HOST:PORT, for example \"0.0.0.0:7461\"; port 0 is any free one");
  } else if (!is_loopback(reach.listen) && reach.certs.empty() && !open) {
    section.complain("listen",
                     fmt::format("'{}' can be reached from other machines: write certs = \"DIR\" "
                                 "(`paceline certs` makes them), or security = \"none\" to do without",
                                 reach.listen));
  } else if (!is_loopback(reach.listen) && reach.token_file.empty()) {
    section.complain("token_file",
                     "other machines have to know a token: name a file with one, for example of "
                     "`openssl rand -hex 32`");
  }
}

}  // namespace

Reach read_reach(Section section) {
  Reach reach;
  reach.listen = section.text("listen", reach.listen);
  reach.certs = section.text("certs", "");
  reach.token_file = section.text("token_file", reach.certs.empty() ? "" : reach.certs + "/token");
  const bool said = section.has("security");
  const bool tls = section.choice("security", 0, {"tls", "none"}) == 0;
  if (said && tls && reach.certs.empty())
    section.complain("security",
                     "TLS needs certificates: write certs = \"DIR\"; `paceline certs` makes them");
  if (said && !tls && !reach.certs.empty())
    section.complain("security", "\"none\" has no use for certs; leave one of them out");
  check(section, reach, said && !tls);
  section.finish();
  return reach;
}

std::string read_monitor(Section section) {
  const std::string listen = section.text("listen", "");
  if (section.has("listen") && !is_address(listen))
    section.complain("listen", "write HOST:PORT, for example \"127.0.0.1:9461\"; port 0 is any free one");
  section.finish();
  return listen;
}

bool is_loopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return absl::StartsWith(host, "127.") || host == "localhost" || host == "[::1]" || host == "::1";
}

}  // namespace paceline::config
