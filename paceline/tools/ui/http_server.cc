#include "paceline/tools/ui/http_server.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace paceline::ui {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Error = beast::error_code;

constexpr std::chrono::seconds kRequestLimit{10};
constexpr std::chrono::seconds kIdleLimit{60};
constexpr std::chrono::seconds kWriteLimit{20};
constexpr std::chrono::seconds kHeartbeat{15};
// A client that has sent its request, and closes, gets the answer if it comes within this time: some close only their
// sending side.
constexpr std::chrono::seconds kGoneLimit{2};

// A page loads nothing from elsewhere, and no other site may frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The last one who holds a connection may be another thread.
struct Counts {
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> streams = 0;
};

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, const HttpServer::Handler& handler, Counts& counts)
      : stream_(std::move(socket)), handler_(handler), counts_(counts), heartbeat_(stream_.get_executor()) {
    ++counts_.connections;
  }
  ~Connection() override { give_back_place(); }

  void start(bool too_many) {
    too_many_ = too_many;
    read();
  }

  void answer(Reply reply) override {
    asio::post(stream_.get_executor(), [self = shared_from_this(), reply = std::move(reply)]() mutable {
      self->write(std::move(reply));
    });
  }
  void stream() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->begin_stream(); });
  }
  void send(std::string bytes) override {
    asio::post(stream_.get_executor(), [self = shared_from_this(), bytes = std::move(bytes)]() mutable {
      self->queue(std::move(bytes));
    });
  }
  bool closed() const override { return closed_; }

 private:
  void read() {
    parser_.emplace();
    parser_->header_limit(HttpServer::kMostHeader);
    parser_->body_limit(HttpServer::kMostBody);
    stream_.expires_after(served_ == 0 ? kRequestLimit : kIdleLimit);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](Error error, std::size_t) { self->read_header(error); });
  }

  void read_header(Error error) {
    if (error) return refuse(error);
    stream_.expires_after(kRequestLimit);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](Error failed, std::size_t) {
      if (failed) return self->refuse(failed);
      self->serve();
    });
  }

  void refuse(Error error) {
    if (error == http::error::header_limit || error == http::error::body_limit)
      return write({.status = 413, .body = "this request is too large\n"}, true);
    if (error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return write({.status = 400, .body = "malformed request\n"}, true);
    close();
  }

  void serve() {
    ++served_;
    const auto& request = parser_->get();
    keep_alive_ = request.keep_alive();
    head_ = request.method() == http::verb::head;
    if (too_many_) return write({.status = 503, .body = "too many connections\n"}, true);
    if (request.count(http::field::host) > 1)
      return write({.status = 400, .body = "malformed request\n"}, true);
    const auto header = [&](const auto& name) { return view(request[name]); };
    awaits_answer_ = true;
    handler_({view(request.method_string()), view(request.target()), header(http::field::host),
              header(http::field::origin), header(http::field::cookie), header(http::field::authorization),
              header("X-Paceline-Job-Token")},
             shared_from_this());
    look_for_end();
  }

  // While an answer is awaited, which may take a while, nothing is read. So nothing else shows that the client has gone.
  void look_for_end() {
    stream_.socket().async_wait(
        Tcp::socket::wait_read, [self = shared_from_this(), request = served_](Error error) {
          const auto awaits = [self, request] { return self->awaits_answer_ && self->served_ == request; };
          Error failed;
          if (error || !awaits() || self->stream_.socket().available(failed) > 0) return;
          self->heartbeat_.expires_after(kGoneLimit);
          self->heartbeat_.async_wait([self, awaits](Error cancelled) {
            if (!cancelled && awaits()) self->close();
          });
        });
  }

  void write(Reply reply, bool last = false) {
    if (closed_ || streaming_) return;
    awaits_answer_ = false;
    heartbeat_.cancel();
    auto response =
        std::make_shared<http::response<http::string_body>>(static_cast<http::status>(reply.status), 11);
    response->set(http::field::content_type, reply.type);
    response->set("Content-Security-Policy", kPolicy);
    response->set("X-Content-Type-Options", "nosniff");
    response->set("Referrer-Policy", "no-referrer");
    response->set("Cache-Control", "no-store");
    for (const auto& [name, value] : reply.headers) response->set(name, value);
    const bool goes_on = keep_alive_ && !last;
    response->keep_alive(goes_on);
    const std::size_t length = reply.body.size();
    if (!head_) response->body() = std::move(reply.body);
    response->content_length(length);
    stream_.expires_after(kWriteLimit);
    http::async_write(stream_, *response,
                      [self = shared_from_this(), response, goes_on](Error error, std::size_t) {
                        if (error || !goes_on) return self->close();
                        self->read();
                      });
  }

  void begin_stream() {
    if (counts_.streams >= HttpServer::kMostStreams)
      return write({.status = 503, .body = "too many pages are open\n"}, true);
    if (head_) return write({.type = "text/event-stream"}, true);
    awaits_answer_ = false;
    streaming_ = true;
    ++counts_.streams;
    stream_.expires_never();
    queue(
        fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 1000\n\n"));
    listen_for_end();
    beat();
  }

  // A client that reads a stream sends nothing more, so a read shows when it ends.
  void listen_for_end() {
    stream_.socket().async_read_some(asio::buffer(ignored_),
                                     [self = shared_from_this()](Error, std::size_t) { self->close(); });
  }

  void beat() {
    heartbeat_.expires_after(kHeartbeat);
    heartbeat_.async_wait([weak = weak_from_this()](Error error) {
      const auto self = weak.lock();
      if (error || !self || self->closed_) return;
      self->queue(": still here\n\n");
      self->beat();
    });
  }

  void queue(std::string bytes) {
    if (closed_ || !streaming_) return;
    queued_ += bytes.size();
    waiting_.push_back(std::move(bytes));
    if (queued_ > HttpServer::kMostQueued) return close();
    if (waiting_.size() == 1) write_next();
  }

  void write_next() {
    stream_.expires_after(kWriteLimit);
    asio::async_write(stream_, asio::buffer(waiting_.front()),
                      [self = shared_from_this()](Error error, std::size_t) {
                        if (error) return self->close();
                        self->stream_.expires_never();
                        self->queued_ -= self->waiting_.front().size();
                        self->waiting_.pop_front();
                        if (!self->waiting_.empty() && !self->closed_) self->write_next();
                      });
  }

  void close() {
    if (closed_.exchange(true)) return;
    heartbeat_.cancel();
    Error ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_both, ignored);
    stream_.close();
    give_back_place();
  }

  // A closed connection has no place, even if somebody still holds it.
  void give_back_place() {
    if (place_given_back_.exchange(true)) return;
    --counts_.connections;
    if (streaming_) --counts_.streams;
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{HttpServer::kMostHeader + HttpServer::kMostBody};
  std::optional<http::request_parser<http::string_body>> parser_;
  const HttpServer::Handler& handler_;
  Counts& counts_;
  asio::steady_timer heartbeat_;
  std::deque<std::string> waiting_;
  std::size_t queued_ = 0;
  std::array<char, 256> ignored_{};
  std::atomic<bool> closed_{false}, place_given_back_{false};
  int served_ = 0;
  bool too_many_ = false, keep_alive_ = false, head_ = false, streaming_ = false, awaits_answer_ = false;
};

class BeastServer final : public HttpServer {
 public:
  explicit BeastServer(Handler handler) : handler_(std::move(handler)) {}

  absl::Status take(ListeningSocket listening) {
    Error error;
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(listening.socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    acceptor_.assign(address.ss_family == AF_INET6 ? Tcp::v6() : Tcp::v4(), listening.socket.release(),
                     error);
    if (error) return absl::ResourceExhaustedError(error.message());
    return absl::OkStatus();
  }
  void run() override {
    accept();
    context_.run();
  }
  void stop() override {
    asio::post(context_, [this] { context_.stop(); });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](Error error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // for example: no descriptor is left
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](Error) { accept(); });
        return;
      }
      // A limited number of further connections get an error; the rest are closed at once.
      if (counts_.connections < 2 * kMostConnections) {
        const bool too_many = counts_.connections >= kMostConnections;
        std::make_shared<Connection>(std::move(socket), handler_, counts_)->start(too_many);
      }
      accept();
    });
  }

  const Handler handler_;
  Counts counts_;
  asio::io_context context_{1};
  Tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::open(ListeningSocket listening, Handler handler) {
  auto server = std::make_unique<BeastServer>(std::move(handler));
  if (const absl::Status taken = server->take(std::move(listening)); !taken.ok()) return taken;
  return server;
}

}  // namespace paceline::ui
