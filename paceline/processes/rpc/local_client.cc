#include "paceline/processes/rpc/local_client.h"

#include <poll.h>

#include <array>

#include "paceline/base/timespec.h"

namespace paceline::rpc {

using std::chrono::steady_clock;

bool LocalClient::send(std::string_view frames) {
  while (!over_) {
    const auto sent = send_at_once(socket_.get(), frames);
    if (!sent) return false;
    frames.remove_prefix(*sent);
    // The answer to the last byte may end the stream before this thread goes on: all was sent even so.
    if (frames.empty()) return true;
    sleep(POLLOUT, std::nullopt);
  }
  return false;
}

std::optional<std::string_view> LocalClient::next(std::optional<std::chrono::nanoseconds> limit) {
  std::optional<steady_clock::time_point> until;
  if (limit) until = steady_clock::now() + *limit;
  while (true) {
    if (const auto message = frames_.next()) return message;
    const bool over = over_;  // everything that was sent before the end is read below
    const Frames::Received received = closed_ ? Frames::Received::kNothing : frames_.receive(socket_.get());
    if (received == Frames::Received::kSome) continue;
    closed_ |= received == Frames::Received::kEnded;
    if (closed_) {
      if (const auto message = frames_.next()) return message;
    }
    if (over || (until && steady_clock::now() >= *until)) return std::nullopt;
    sleep(closed_ ? short{0} : POLLIN, until);
  }
}

void LocalClient::end() {
  over_ = true;
  ended_.wake();
}

void LocalClient::sleep(short events, std::optional<steady_clock::time_point> until) {
  // poll() passes over the socket once it is closed: it would report that again and again.
  std::array<pollfd, 2> looked_at{pollfd{ended_.fd(), POLLIN, 0},
                                  pollfd{events != 0 ? socket_.get() : -1, events, 0}};
  timespec limit{};
  if (until) limit = timespec_of(*until - steady_clock::now());
  // After an error, for example a signal, the caller looks at everything.
  static_cast<void>(ppoll(looked_at.data(), looked_at.size(), until ? &limit : nullptr, nullptr));
}

}  // namespace paceline::rpc
