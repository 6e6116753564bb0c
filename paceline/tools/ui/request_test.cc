// Which requests the pages grant, and the contents of targets.
#include "paceline/tools/ui/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::ui {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
const Door kDoor{.token = kToken, .cookie = "paceline_80", .hosts = hosts_of("127.0.0.1:80")};
const std::string kBearer = std::string("Bearer ") + kToken;

RawRequest with_token(std::string_view target, std::string_view method = "GET") {
  return {.method = method,
          .target = target,
          .host = "127.0.0.1:80",
          .origin = "",
          .cookie = "",
          .authorization = kBearer,
          .job_token = ""};
}

TEST(RequestTest, ATargetIsAPathAndDecodedParameters) {
  const auto target = parse_target("/api/events?part=run&run=a%2Fb%20c&run=d&empty=&&bare");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/api/events");
  EXPECT_EQ(target->parameter("run"), "a/b c");
  EXPECT_EQ(target->parameter("missing"), "");
  EXPECT_EQ(target->parameters.size(), 5u);
}

TEST(RequestTest, AMalformedTargetIsNone) {
  for (const std::string wrong : {"", "api", "/%", "/%4", "/%zz", "/a?b=%00", "/a?b=%0a", "/\x7f", "/%c3",
                                  "/%80", "/%ff%ff", "/%c0%80"})
    EXPECT_FALSE(parse_target(wrong).has_value()) << wrong;
  EXPECT_FALSE(parse_target("/" + std::string(kLongestTarget, 'a')).has_value());
  std::string many = "/?";
  for (std::size_t i = 0; i <= kMostParameters; ++i) many += "a=b&";
  EXPECT_FALSE(parse_target(many).has_value());
  EXPECT_TRUE(parse_target("/%c3%a9").has_value());
}

TEST(RequestTest, ACookieIsFoundByItsWholeName) {
  EXPECT_EQ(cookie_value("a=1; paceline_80=x; b=2", "paceline_80"), "x");
  EXPECT_EQ(cookie_value("xpaceline_80=x; paceline_8=y", "paceline_80"), "");
  EXPECT_EQ(cookie_value("paceline_80", "paceline_80"), "");
}

TEST(RequestTest, WithoutTheTokenNothingIsAnswered) {
  for (const std::string target : {"/", "/assets/ui.js", "/api/events?part=list", "/metrics", "/healthz"}) {
    RawRequest request = with_token(target);
    EXPECT_EQ(read_request(request, kDoor).refused, 0) << target;
    request.authorization = "";
    EXPECT_EQ(read_request(request, kDoor).refused, 401) << target;
    request.authorization = "Bearer 0123456789abcdef";
    EXPECT_EQ(read_request(request, kDoor).refused, 401) << target;
    request.cookie = "paceline_80=0123456789abcdef0123456789abcdef";
    EXPECT_EQ(read_request(request, kDoor).refused, 0) << target;
  }
}

TEST(RequestTest, TheTokenInTheAddressSignsIn) {
  RawRequest request = with_token("/?token=0123456789abcdef0123456789abcdef");
  request.authorization = "";
  EXPECT_EQ(read_request(request, kDoor).what, Asks::kSignIn);
  request.target = "/?token=other";
  EXPECT_EQ(read_request(request, kDoor).refused, 401);
}

TEST(RequestTest, ForeignHostsAndOriginsAreRefused) {
  RawRequest request = with_token("/");
  for (const std::string host : {"localhost:80", "LOCALHOST:80", "[::1]:80"}) {
    request.host = host;
    EXPECT_EQ(read_request(request, kDoor).refused, 0) << host;
  }
  for (const std::string host :
       {"", "127.0.0.1", "127.0.0.1:81", "rebound.example:80", "127.0.0.1:80.example"}) {
    request.host = host;
    EXPECT_EQ(read_request(request, kDoor).refused, 421) << host;
  }
  request.host = "127.0.0.1:80";
  request.origin = "http://127.0.0.1:80";
  EXPECT_EQ(read_request(request, kDoor).refused, 0);
  for (const std::string origin : {"null", "https://evil.example", "http://localhost:80", "//", "x"}) {
    request.origin = origin;
    EXPECT_EQ(read_request(request, kDoor).refused, 403) << origin;
  }
}

TEST(RequestTest, StopAndEvaluateWantAPostARunAndTheTokenOfTheJob) {
  for (const auto& [path, what] :
       {std::pair<std::string, Asks>{"/api/stop", Asks::kStop}, {"/api/evaluate", Asks::kEvaluate}}) {
    const std::string of_run = path + "?run=a";
    RawRequest request = with_token(of_run, "POST");
    EXPECT_EQ(read_request(request, kDoor).refused, 403);
    request.job_token = "secret";
    const Asked asked = read_request(request, kDoor);
    EXPECT_EQ(asked.what, what);
    EXPECT_EQ(asked.job_token, "secret");
    EXPECT_THAT(asked.runs, testing::ElementsAre("a"));
    request.method = "GET";
    EXPECT_EQ(read_request(request, kDoor).refused, 405);
    request.method = "POST";
    request.target = path;
    EXPECT_EQ(read_request(request, kDoor).refused, 400);
    const std::string without = of_run;
    RawRequest stranger = request;
    stranger.target = without;
    stranger.cookie = stranger.authorization = "";
    EXPECT_EQ(read_request(stranger, kDoor).refused, 401);
  }
  EXPECT_EQ(read_request(with_token("/metrics", "DELETE"), kDoor).refused, 405);
}

TEST(RequestTest, APageNamesItsRuns) {
  EXPECT_EQ(read_request(with_token("/api/events?part=run"), kDoor).refused, 400);
  EXPECT_EQ(read_request(with_token("/api/events?part=all&run=a"), kDoor).refused, 400);
  EXPECT_THAT(read_request(with_token("/api/events?part=compare&run=a&run=b"), kDoor).runs,
              testing::ElementsAre("a", "b"));
  std::string many = "/api/events?part=compare";
  for (std::size_t i = 0; i <= kMostRuns; ++i) many += "&run=a";
  EXPECT_EQ(read_request(with_token(many), kDoor).refused, 400);
}

TEST(RequestTest, AMonitorHasMetricsForAllAndNoPages) {
  const Door monitor{.token = "", .cookie = "", .hosts = {}, .open_metrics = true};
  RawRequest request{.method = "GET",
                     .target = "/metrics",
                     .host = "node7:9461",
                     .origin = "",
                     .cookie = "",
                     .authorization = "",
                     .job_token = ""};
  EXPECT_EQ(read_request(request, monitor).what, Asks::kMetrics);
  request.target = "/healthz";
  EXPECT_EQ(read_request(request, monitor).what, Asks::kHealth);
  for (const std::string target : {"/", "/api/events?part=list", "/assets/ui.js", "/?token="}) {
    request.target = target;
    EXPECT_EQ(read_request(request, monitor).refused, 404) << target;
  }
  request = {.method = "POST",
             .target = "/api/stop?run=a",
             .host = "x",
             .origin = "",
             .cookie = "paceline_80=",
             .authorization = "Bearer ",
             .job_token = "t"};
  EXPECT_EQ(read_request(request, monitor).refused, 404);
}

}  // namespace
}  // namespace paceline::ui
