// HTTP for a few browsers: requests of bounded size from a bounded number of connections, answered at once or
// as a stream of events. All of it happens on the thread that calls run(); answers may come from any thread.
//
// Invariant: a connection has a limited time for each request and each write. A client that sends more than a
// request may have, or comes when too many are connected, is refused. The bytes that wait for a slow reader
// are bounded: beyond the bound its connection ends, and the browser connects again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/listening_socket.h"
#include "paceline/tools/ui/request.h"

namespace paceline::ui {

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};  // beside those that all answers have
};

// One request until it is answered. Any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Answers the request, once, instead of stream().
  virtual void answer(Reply reply) = 0;
  // Begins a stream of events (text/event-stream), for send().
  virtual void stream() = 0;
  virtual void send(std::string bytes) = 0;
  // True if the other side has gone, or is too slow.
  virtual bool closed() const = 0;
};

class HttpServer {
 public:
  static constexpr std::size_t kMostConnections = 128;
  static constexpr std::size_t kMostStreams = 48;
  static constexpr std::size_t kMostHeader = 16384;  // bytes of a request
  static constexpr std::size_t kMostBody = 4096;
  static constexpr std::size_t kMostQueued = 8 << 20;  // bytes of a stream

  // Called on the thread of run(); must not block.
  using Handler = std::function<void(const RawRequest&, const std::shared_ptr<Exchange>&)>;

  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<HttpServer>> open(ListeningSocket listening, Handler handler);
  virtual ~HttpServer() = default;

  // Serves until stop(), which any thread may call.
  virtual void run() = 0;
  virtual void stop() = 0;
};

}  // namespace paceline::ui
