#include "paceline/transport/ipc/descriptor_service.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paceline/base/status_macros.h"
#include "paceline/transport/ipc/abstract_socket.h"
#include "paceline/transport/ipc/passed_descriptors.h"

namespace paceline::ipc {

namespace {

constexpr std::size_t kLongestLine = 256;
// A peer that says nothing for so long is left.
constexpr std::chrono::seconds kPatience{2};

absl::Status error(const char* what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string read_line(int socket) {
  std::string line;
  char one = 0;
  while (line.size() < kLongestLine && ::read(socket, &one, 1) == 1 && one != '\n') line += one;
  return line;
}

// Sends the text, with the descriptor if there is one.
void send_with(int socket, const std::string& text, int descriptor) {
  const std::array<int, 1> one{descriptor};
  // A peer that is gone needs no answer.
  static_cast<void>(send_with_descriptors(socket, text, std::span(one).first(descriptor >= 0 ? 1 : 0)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorService>> DescriptorService::start(
    const std::string& wanted, std::map<std::string, Given> given) {
  const std::string name = wanted.empty() ? new_socket_name() : wanted;
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor listener, listen_at_name(name));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return error("a pipe");
  return std::unique_ptr<DescriptorService>(new DescriptorService(
      std::move(listener), FileDescriptor(ends[1]), FileDescriptor(ends[0]), name, std::move(given)));
}

DescriptorService::DescriptorService(FileDescriptor listener, FileDescriptor stop, FileDescriptor stopped,
                                     std::string address, std::map<std::string, Given> given)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      stopped_(std::move(stopped)),
      address_(std::move(address)),
      given_(std::move(given)),
      thread_([this] { serve(); }) {}

DescriptorService::~DescriptorService() {
  stop_ = FileDescriptor();
  thread_.join();
}

void DescriptorService::put(const std::string& name, FileDescriptor descriptor, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  given_.insert_or_assign(name, Given{std::move(descriptor), bytes});
}

void DescriptorService::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  given_.erase(name);
}

void DescriptorService::serve() {
  while (true) {
    std::array<pollfd, 2> events{pollfd{listener_.get(), POLLIN, 0}, pollfd{stopped_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    if (events[0].revents == 0) continue;
    FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.valid()) answer(std::move(peer));
  }
}

void DescriptorService::answer(FileDescriptor peer) {
  if (!of_this_user(peer.get())) return;
  be_patient(peer.get(), kPatience);
  const std::string line = read_line(peer.get());
  constexpr std::string_view kGet = "get ";
  if (!line.starts_with(kGet)) return send_with(peer.get(), "no such request\n", -1);
  const std::lock_guard lock(mutex_);
  const auto found = given_.find(line.substr(kGet.size()));
  if (found == given_.end()) return send_with(peer.get(), "no memory has this name\n", -1);
  send_with(peer.get(), fmt::format("ok {}\n", found->second.bytes), found->second.descriptor.get());
}

absl::StatusOr<FileDescriptor> DescriptorService::get(const std::string& address, const std::string& name) {
  const auto connected = connect_to_name(address, kPatience);
  if (absl::IsUnavailable(connected.status()))
    return absl::UnavailableError(fmt::format("nobody gives memory at {}", address));
  PACELINE_RETURN_IF_ERROR(connected.status());
  const int socket = connected->get();
  // The name of a service that has ended is anybody's.
  if (!of_this_user(socket))
    return absl::PermissionDeniedError(fmt::format("another user listens at {}", address));
  send_with(socket, fmt::format("get {}\n", name), -1);
  auto answer = receive_with_descriptors(socket, kLongestLine);
  if (!answer) return absl::UnavailableError(fmt::format("{} gave no answer", address));
  if (!answer->descriptors.empty()) return std::move(answer->descriptors.front());
  std::string& reason = answer->text;
  if (reason.ends_with('\n')) reason.pop_back();
  return absl::NotFoundError(fmt::format("{}: {}", name, reason));
}

}  // namespace paceline::ipc
