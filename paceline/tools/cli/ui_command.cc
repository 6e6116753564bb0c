#include "paceline/tools/cli/ui_command.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/listening_socket.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/reach.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/ask_run.h"
#include "paceline/tools/cli/ui_child.h"
#include "paceline/tools/ui/ui_server.h"
#include "paceline/transport/security/token.h"

namespace paceline::cli {

namespace {

constexpr std::chrono::milliseconds kLook{100};

absl::StatusOr<ListeningSocket> listen_for_pages(const UiCommandOptions& options) {
  if (options.listen_fd >= 0) return inherited_socket(options.listen_fd, options.listen);
  if (options.listen.empty()) return listen_as_usual();
  const auto is_one = look_up(options.listen, AI_PASSIVE);
  if (absl::IsInvalidArgument(is_one.status()))
    return absl::InvalidArgumentError("ui: " + std::string(is_one.status().message()));
  if (!config::is_loopback(options.listen) && !options.metrics_only) {
    return absl::InvalidArgumentError(
        fmt::format("ui: '{}' can be reached from other machines, and nothing here is encrypted; listen on "
                    "127.0.0.1, and connect "
                    "through ssh -L 7462:127.0.0.1:7462",
                    options.listen));
  }
  auto listening = listen_at(options.listen);
  if (listening.ok()) return listening;
  return absl::Status(listening.status().code(), fmt::format("ui: cannot listen on {}: {}", options.listen,
                                                             std::string(listening.status().message())));
}

std::string read_all(int fd) {
  std::string text;
  char bytes[256];
  for (ssize_t count = 0; (count = ::read(fd, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  ::close(fd);
  return text;
}

absl::StatusOr<std::vector<std::filesystem::path>> roots_of(const UiCommandOptions& options) {
  std::vector<std::filesystem::path> roots;
  for (const std::string& name : options.roots.empty() ? std::vector<std::string>{"runs"} : options.roots) {
    PACELINE_ASSIGN_OR_RETURN(const std::filesystem::path root, store::absolute_path(name));
    std::error_code error;
    if (!std::filesystem::is_directory(root, error))
      return absl::NotFoundError(
          fmt::format("{}: {}; name a folder with runs in it, or the folder of a run", name,
                      std::filesystem::exists(root, error) ? "is a file" : "there is no such folder"));
    roots.push_back(root.lexically_normal());
  }
  return roots;
}

}  // namespace

absl::StatusOr<int> ui_command(const UiCommandOptions& options) {
  ui::UiOptions pages;
  PACELINE_ASSIGN_OR_RETURN(pages.roots, roots_of(options));
  PACELINE_ASSIGN_OR_RETURN(ListeningSocket listening, listen_for_pages(options));
  const bool is_child = options.token_fd >= 0 || options.listen_fd >= 0;
  pages.open_metrics = options.metrics_only;
  pages.any_host = options.metrics_only && !config::is_loopback(listening.address);
  if (options.token_fd >= 0) {
    pages.token = read_all(options.token_fd);
  } else if (!options.metrics_only) {
    PACELINE_ASSIGN_OR_RETURN(pages.token, security::make_token());
  }
  pages.stop_run = stop_run;
  pages.evaluate_run = evaluate_run;
  const std::string address = listening.address;
  const std::string token = pages.token;
  PACELINE_ASSIGN_OR_RETURN(const auto server, ui::UiServer::open(std::move(listening), std::move(pages)));
  if (!is_child) {
    launch::catch_stop_signals();
    launch::print(stdout, options.metrics_only ? fmt::format("http://{}/metrics\n", address)
                                               : fmt::format("watch: http://{}/?token={}\n", address, token));
  }
  std::thread watch;
  std::atomic<bool> over = false;
  if (!is_child) {
    watch = std::thread([&] {
      while (!over && launch::stop_signals() == 0) std::this_thread::sleep_for(kLook);
      server->stop();
    });
  }
  server->run();
  over = true;
  if (watch.joinable()) watch.join();
  return 0;
}

}  // namespace paceline::cli
