// What somebody who reaches the port of `paceline ui` asks for, and whether he gets it: the reader of
// targets, parameters, cookies and hosts. Pure; its input comes from anybody.
//
// Invariant: nothing but /healthz and /metrics of a monitor is answered without the token, and
// nothing at all to a page of another origin.
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
inline constexpr std::size_t kMostRuns = 16;  // of one page

// As it came over the connection. A header that is missing is empty.
struct RawRequest {
  std::string_view method, target;
  std::string_view host, origin, cookie, authorization;
  std::string_view job_token;  // X-Paceline-Job-Token
};

struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> parameters;  // decoded, in order

  // The first of that name; empty where there is none.
  std::string parameter(std::string_view name) const;
};

// Nothing if it is malformed: no path, too long, a wrong escape, or bytes that are not text.
std::optional<Target> parse_target(std::string_view target);

// Of "a=1; b=2"; empty where there is none of that name.
std::string cookie_value(std::string_view cookies, std::string_view name);

// Whom a server lets in.
struct Door {
  std::string token;               // of the pages; empty: there are no pages
  std::string cookie;              // the name of the cookie that has it
  std::vector<std::string> hosts;  // that a browser may name, HOST:PORT; empty: any
  bool open_metrics = false;       // /metrics and /healthz are for all who reach the port
};

// The values of Host that name loopback and `port`, and also `address` (HOST:PORT) if it is not loopback.
std::vector<std::string> hosts_of(const std::string& address);

enum class Asks { kPage, kAsset, kEvents, kStop, kEvaluate, kMetrics, kHealth, kSignIn, kNothing };

struct Asked {
  Asks what = Asks::kNothing;
  int refused = 0;    // the HTTP status, where it is refused
  std::string why{};  // a line for people
  std::string asset{};
  std::vector<std::string> runs{};  // by the names that the list gives them
  std::string part{};               // of kEvents: "list", "run" or "compare"
  std::string job_token{};
};

Asked read_request(const RawRequest& request, const Door& door);

}  // namespace paceline::ui
