#include "paceline/tools/cli/ui_child.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/print.h"
#include "paceline/transport/security/token.h"

namespace paceline::cli {

namespace {

constexpr char kUsual[] = "127.0.0.1:7462";
constexpr char kAny[] = "127.0.0.1:0";

// A descriptor to read `text` from, to its end.
absl::StatusOr<FileDescriptor> readable(const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  FileDescriptor read_end(ends[0]);
  const FileDescriptor write_end(ends[1]);
  // A token is shorter than what a pipe holds.
  if (write(write_end.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return absl::ResourceExhaustedError("cannot write to a pipe");
  return read_end;
}

}  // namespace

absl::StatusOr<ListeningSocket> listen_as_usual() {
  auto listening = listen_at(kUsual);
  return listening.ok() ? std::move(listening) : listen_at(kAny);
}

absl::StatusOr<UiChild> UiChild::with_pages() {
  PACELINE_ASSIGN_OR_RETURN(ListeningSocket listening, listen_as_usual());
  PACELINE_ASSIGN_OR_RETURN(std::string token, security::make_token());
  return UiChild(std::move(listening), std::move(token));
}

absl::StatusOr<UiChild> UiChild::with_metrics(const std::string& listen) {
  auto listening = listen_at(listen);
  if (!listening.ok())
    return absl::Status(listening.status().code(),
                        fmt::format("monitor.listen: cannot listen on {}: {}", listen,
                                    std::string(listening.status().message())));
  return UiChild(*std::move(listening), "");
}

absl::Status UiChild::start(const std::string& folder, const std::string& log_folder,
                            const std::string& page) {
  const std::string address = listening_->address;
  std::vector<std::string> words = {"ui",    folder,        "--listen",
                                    address, "--listen-fd", std::to_string(listening_->socket.get())};
  std::vector<int> inherited = {listening_->socket.get()};
  FileDescriptor token;
  if (token_.empty()) {
    words.emplace_back("--metrics-only");
  } else {
    PACELINE_ASSIGN_OR_RETURN(token, readable(token_));
    words.insert(words.end(), {"--token-fd", std::to_string(token.get())});
    inherited.push_back(token.get());
  }
  PACELINE_ASSIGN_OR_RETURN(launch::ChildProcess process,
                            launch::ChildProcess::start(launch::ChildProgram::kWithoutTorch, "ui", words,
                                                        log_folder + "/ui.log", inherited));
  process_.emplace(std::move(process));
  listening_.reset();
  if (!token_.empty())
    launch::print(stderr, fmt::format("watch: http://{}/?token={}{}\n", address, token_, page));
  return absl::OkStatus();
}

}  // namespace paceline::cli
