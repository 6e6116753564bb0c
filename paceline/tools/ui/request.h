// A request to the port of `paceline ui`, and whether it is granted: the reader of targets, parameters,
// cookies and hosts. Pure; its input may come from anybody.
//
// Invariant: without the token nothing is answered except a monitor's /healthz and /metrics, and a page of
// another origin gets no answer at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::ui {

inline constexpr std::size_t kLongestTarget = 4096;  // bytes
inline constexpr std::size_t kMostParameters = 32;
inline constexpr std::size_t kMostRuns = 16;  // the most runs of one page

// A request as it came over the connection. A header that is missing is empty.
struct RawRequest {
  std::string_view method, target;
  std::string_view host, origin, cookie, authorization;
  std::string_view job_token;  // X-Paceline-Job-Token
};

struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> parameters;  // decoded, in order

  // The first parameter of that name; empty if there is none.
  std::string parameter(std::string_view name) const;
};

// Nothing if the target is malformed: no path, too long, a wrong escape, or bytes that are not text.
std::optional<Target> parse_target(std::string_view target);

// The value in "a=1; b=2"; empty if there is none of that name.
std::string cookie_value(std::string_view cookies, std::string_view name);

// The conditions under which a server grants a request.
struct Door {
  std::string token;               // the token of the pages; empty: there are no pages
  std::string cookie;              // the name of the cookie that has the token
  std::vector<std::string> hosts;  // the names that a browser may call this host, HOST:PORT; empty: any
  bool open_metrics = false;       // /metrics and /healthz are for everybody who reaches the port
};

// The values of Host that name loopback and `port`, and also `address` (HOST:PORT) if it is not loopback.
std::vector<std::string> hosts_of(const std::string& address);

enum class Asks { kPage, kAsset, kEvents, kStop, kEvaluate, kMetrics, kHealth, kSignIn, kNothing };

struct Asked {
  Asks what = Asks::kNothing;
  int refused = 0;    // the HTTP status, if it is refused
  std::string why{};  // a line for people
  std::string asset{};
  std::vector<std::string> runs{};  // the names that the list of runs has for them
  std::string part{};               // for kEvents: "list", "run" or "compare"
  std::string job_token{};
};

Asked read_request(const RawRequest& request, const Door& door);

}  // namespace paceline::ui
