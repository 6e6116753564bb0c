#include "paceline/tools/ui/request.h"

#include <algorithm>
#include <cctype>

#include "paceline/transport/security/token.h"

namespace paceline::ui {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int letter = std::tolower(static_cast<unsigned char>(c));
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// The number of bytes of a UTF-8 character with this first byte; 0: none begins with it.
std::size_t length_of_character(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// True for UTF-8 without control characters.
bool is_text(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes.front());
    const std::size_t length = length_of_character(first);
    if (length == 0 || length > bytes.size() || first < 0x20 || first == 0x7f) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if ((static_cast<unsigned char>(bytes[i]) & 0xc0) != 0x80) return false;
    }
    bytes.remove_prefix(length);
  }
  return true;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return is_text(bytes) ? std::optional(bytes) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Returns the piece before `mark`, and leaves the rest behind it in `text`.
std::string_view cut(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

bool host_is_ours(std::string_view host, const Door& door) {
  if (door.hosts.empty()) return true;
  return std::find(door.hosts.begin(), door.hosts.end(), lower(host)) != door.hosts.end();
}

bool shows_token(const RawRequest& request, const Target& target, const Door& door) {
  if (door.token.empty()) return false;
  constexpr std::string_view kBearer = "Bearer ";
  if (request.authorization.starts_with(kBearer) &&
      security::same_token(request.authorization.substr(kBearer.size()), door.token))
    return true;
  return security::same_token(cookie_value(request.cookie, door.cookie), door.token) ||
         security::same_token(target.parameter("token"), door.token);
}

Asked refusal(int status, std::string why) { return {.refused = status, .why = std::move(why)}; }

Asked events(const Target& target) {
  Asked asked{.what = Asks::kEvents, .part = target.parameter("part")};
  for (const auto& [name, value] : target.parameters) {
    if (name == "run") asked.runs.push_back(value);
  }
  if (asked.part != "list" && asked.part != "run" && asked.part != "compare")
    return refusal(400, "part is list, run or compare");
  if (asked.runs.size() > kMostRuns) return refusal(400, "too many runs for one page");
  if (asked.part != "list" && asked.runs.empty()) return refusal(400, "name a run");
  return asked;
}

Asked what_of(const RawRequest& request, const Target& target) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const std::string run = target.parameter("run");
  const auto of_run = [&](Asks what) {
    Asked asked{.what = what};
    if (!run.empty()) asked.runs.push_back(run);
    return asked;
  };
  if (target.path == "/api/stop" || target.path == "/api/evaluate") {
    if (request.method != "POST") return refusal(405, "ask this with a POST request");
    if (run.empty()) return refusal(400, "name a run");
    if (request.job_token.empty())
      return refusal(403, "show the token of the job: it is in the run's folder");
    Asked asked = of_run(target.path == "/api/stop" ? Asks::kStop : Asks::kEvaluate);
    asked.job_token = std::string(request.job_token);
    return asked;
  }
  if (!reads) return refusal(405, "this is only for reading; use GET");
  if (target.path == "/")
    return target.parameter("token").empty() ? Asked{.what = Asks::kPage} : Asked{.what = Asks::kSignIn};
  if (target.path == "/api/events") return events(target);
  if (target.path == "/metrics") return of_run(Asks::kMetrics);
  if (target.path == "/healthz") return {.what = Asks::kHealth};
  constexpr std::string_view kAssets = "/assets/";
  if (target.path.starts_with(kAssets))
    return {.what = Asks::kAsset, .asset = target.path.substr(kAssets.size())};
  return refusal(404, "there is nothing here");
}

}  // namespace

std::string Target::parameter(std::string_view name) const {
  for (const auto& [key, value] : parameters) {
    if (key == name) return value;
  }
  return "";
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/' || target.size() > kLongestTarget) return std::nullopt;
  std::string_view query = target;
  const auto path = decoded(cut(query, '?'));
  if (!path) return std::nullopt;
  Target parsed{*path, {}};
  query = query.substr(0, query.find('#'));
  while (!query.empty()) {
    std::string_view value = cut(query, '&');
    if (value.empty()) continue;
    const auto name = decoded(cut(value, '='));
    const auto text = decoded(value);
    if (!name || !text || parsed.parameters.size() == kMostParameters) return std::nullopt;
    parsed.parameters.emplace_back(*name, *text);
  }
  return parsed;
}

std::string cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    std::string_view value = trimmed(cut(cookies, ';'));
    if (trimmed(cut(value, '=')) == name) return std::string(value);
  }
  return "";
}

std::vector<std::string> hosts_of(const std::string& address) {
  const std::string port = address.substr(std::min(address.rfind(':'), address.size()));
  std::vector<std::string> hosts = {"127.0.0.1" + port, "localhost" + port, "[::1]" + port};
  const std::string own = lower(address);
  if (std::find(hosts.begin(), hosts.end(), own) == hosts.end()) hosts.push_back(own);
  return hosts;
}

Asked read_request(const RawRequest& request, const Door& door) {
  if (!host_is_ours(request.host, door))
    return refusal(421, "this server has another name; use the printed address");
  const auto target = parse_target(request.target);
  if (!target) return refusal(400, "malformed address");
  if (!request.origin.empty() && request.origin != "null") {
    const std::string_view host =
        request.origin.substr(std::min(request.origin.find("//") + 2, request.origin.size()));
    if (request.origin.find("//") == std::string_view::npos || lower(host) != lower(request.host))
      return refusal(403, "pages of other sites get nothing here");
  } else if (request.origin == "null") {
    return refusal(403, "pages of other sites get nothing here");
  }
  const Asked asked = what_of(request, *target);
  const bool open = door.open_metrics && (asked.what == Asks::kMetrics || asked.what == Asks::kHealth);
  if (open || shows_token(request, *target, door)) return asked;
  if (door.token.empty()) return refusal(404, "this port has /metrics and /healthz, and no pages");
  return refusal(401, "open the address that `paceline ui` printed: it has the token in it");
}

}  // namespace paceline::ui
