// Feeds the reader of requests: the first line is the method, the second the target, then host, origin,
// cookie, authorization and the job's token.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "paceline/tools/ui/request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ui;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 7> lines;
  for (std::string_view& line : lines) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const RawRequest request{lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], lines[6]};
  Door door{.token = "0123456789abcdef", .cookie = "paceline_80", .hosts = hosts_of("127.0.0.1:80")};
  const Asked asked = read_request(request, door);
  const bool token_anywhere =
      std::string_view(reinterpret_cast<const char*>(data), size).find("456") != std::string_view::npos ||
      lines[1].find('%') != std::string_view::npos;
  // A request that is granted must have the token somewhere.
  if (asked.refused == 0 && !token_anywhere) std::abort();
  if (asked.refused == 0 && asked.what == Asks::kNothing) std::abort();
  if (asked.runs.size() > kMostRuns) std::abort();
  if (const auto target = parse_target(request.target); target && target->parameters.size() > kMostParameters)
    std::abort();
  door.hosts.clear();
  door.open_metrics = true;
  read_request(request, door);
  return 0;
}
