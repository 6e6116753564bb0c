#include "paceline/tools/ui/ui_server.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/tools/ui/http_server.h"
#include "paceline/tools/ui/page_files.h"
#include "paceline/tools/ui/publisher.h"
#include "paceline/tools/ui/request.h"

namespace paceline::ui {

namespace {

std::string type_of(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

Reply file(const std::string& name) {
  const std::string_view text = page_file(name);
  if (text.empty()) return {.status = 404, .body = "there is nothing here\n"};
  return {.type = type_of(name), .body = std::string(text)};
}

class Server final : public UiServer {
 public:
  Server(Door door, const UiOptions& options) : door_(std::move(door)), publisher_(options) {}

  absl::Status listen(ListeningSocket listening) {
    PACELINE_ASSIGN_OR_RETURN(
        http_, HttpServer::open(std::move(listening), [this](const auto& request, const auto& exchange) {
          handle(request, exchange);
        }));
    return absl::OkStatus();
  }
  void run() override { http_->run(); }
  void stop() override { http_->stop(); }

 private:
  // The token goes into a cookie, and the page removes it from the address. A redirect would not do: if a
  // link on another site began the visit, a browser does not send such a cookie with a redirected request.
  Reply signed_in() const {
    Reply page = file("index.html");
    page.headers.emplace_back(
        "Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", door_.cookie, door_.token));
    return page;
  }

  void handle(const RawRequest& request, const std::shared_ptr<Exchange>& exchange) {
    Asked asked = read_request(request, door_);
    if (asked.refused != 0) return exchange->answer({.status = asked.refused, .body = asked.why + "\n"});
    const std::string run = asked.runs.empty() ? "" : asked.runs.front();
    switch (asked.what) {
      case Asks::kPage:
        return exchange->answer(file("index.html"));
      case Asks::kAsset:
        return exchange->answer(file(asked.asset));
      case Asks::kSignIn:
        return exchange->answer(signed_in());
      case Asks::kHealth:
        return publisher_.health(exchange);
      case Asks::kMetrics:
        return publisher_.metrics(exchange, run);
      case Asks::kStop:
        return publisher_.ask_run(exchange, run, asked.job_token, &UiOptions::stop_run);
      case Asks::kEvaluate:
        return publisher_.ask_run(exchange, run, asked.job_token, &UiOptions::evaluate_run);
      case Asks::kEvents:
        return publisher_.subscribe(exchange, asked.part, asked.runs);
      case Asks::kNothing:
        return exchange->answer({.status = 404, .body = "there is nothing here\n"});
    }
  }

  const Door door_;
  std::unique_ptr<HttpServer> http_;  // after everything that its connections use, except the publisher
  Publisher publisher_;               // its pages are connections of http_
};

}  // namespace

absl::StatusOr<std::unique_ptr<UiServer>> UiServer::open(ListeningSocket listening, UiOptions options) {
  const std::string& address = listening.address;
  // Browsers keep the cookies of all ports of a host together.
  Door door{.token = options.token,
            .cookie = "paceline_" + address.substr(address.rfind(':') + 1),
            .hosts = options.any_host ? std::vector<std::string>() : hosts_of(address),
            .open_metrics = options.open_metrics};
  auto server = std::make_unique<Server>(std::move(door), options);
  PACELINE_RETURN_IF_ERROR(server->listen(std::move(listening)));
  return server;
}

}  // namespace paceline::ui
