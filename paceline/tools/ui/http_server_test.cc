// The server of the pages against malformed, large, slow and silent clients, and too many of them.
#include "paceline/tools/ui/http_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/host_port.h"
#include "paceline/tools/ui/ui_server.h"

namespace paceline::ui {
namespace {

class Client {
 public:
  explicit Client(const std::string& address) {
    const auto found = look_up(address);
    EXPECT_TRUE(found.ok());
    const addrinfo* one = found->get();
    socket_ = FileDescriptor(::socket(one->ai_family, one->ai_socktype, one->ai_protocol));
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_.get(), one->ai_addr, one->ai_addrlen), 0);
  }
  void send(const std::string& bytes) { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads until the bytes contain `end`, or the connection ends.
  std::string read(const std::string& end) {
    char bytes[4096];
    while (got_.find(end) == std::string::npos) {
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count <= 0) break;
      got_.append(bytes, static_cast<std::size_t>(count));
    }
    return got_;
  }
  std::string read_all() { return read("\x01 never"); }
  void end() { socket_ = FileDescriptor(); }
  void send_no_more() { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  FileDescriptor socket_;
  std::string got_;
};

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + more + "\r\n";
}

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    auto listening = listen_at("127.0.0.1:0");
    address_ = listening->address;
    server_ =
        *HttpServer::open(*std::move(listening), [this](const RawRequest& request, const auto& exchange) {
          if (request.target == "/stream") {
            exchange->stream();
            exchange->send("data: 1\n\n");
            stream_ = exchange;
            ++streams_;
          } else if (request.target == "/never") {
            const std::lock_guard lock(mutex_);
            unanswered_.push_back(exchange);
          } else {
            exchange->answer({.body = std::string(request.target) + "\n"});
          }
        });
    thread_ = std::thread([this] { server_->run(); });
  }
  ~HttpServerTest() override {
    server_->stop();
    thread_.join();
    stream_.reset();
    unanswered_.clear();
  }

  std::vector<std::shared_ptr<Exchange>> unanswered() {
    const std::lock_guard lock(mutex_);
    return unanswered_;
  }

  // The server's thread notices the end at its next turn.
  bool soon_closed() const { return soon_closed(*stream_); }
  static bool soon_closed(const Exchange& one) {
    for (int i = 0; i < 2000 && !one.closed(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return one.closed();
  }

  std::string address_;
  std::shared_ptr<Exchange> stream_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> unanswered_;
  std::atomic<int> streams_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, AnswersOneRequestAfterTheOther) {
  Client client(address_);
  client.send(get("/a"));
  EXPECT_THAT(client.read("/a\n"), testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  client.send(get("/b", "Connection: close\r\n"));
  const std::string all = client.read_all();
  EXPECT_THAT(all, testing::EndsWith("/b\n"));
  EXPECT_THAT(all, testing::HasSubstr("Content-Security-Policy: default-src 'none'"));
}

TEST_F(HttpServerTest, ALateOrTornRequestIsReadWhole) {
  Client client(address_);
  for (const char c : get("/slowly", "Connection: close\r\n")) client.send(std::string(1, c));
  EXPECT_THAT(client.read_all(), testing::EndsWith("/slowly\n"));
}

TEST_F(HttpServerTest, RefusesMalformedAndLargeRequests) {
  const std::string long_header = "X: " + std::string(HttpServer::kMostHeader, 'x') + "\r\n";
  const std::string long_body =
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(HttpServer::kMostBody + 1) +
      "\r\n\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"nonsense\r\n\r\n", "400"},
      {"GET / HTTP/9.9\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET /\r\n\r\n", "400"},
      {get("/", long_header), "413"},
      {long_body, "413"},
      {std::string(100, '\0') + "\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"}};
  for (const auto& [bytes, status] : cases) {
    Client client(address_);
    client.send(bytes);
    EXPECT_THAT(client.read_all(), testing::StartsWith("HTTP/1.1 " + status + " ")) << bytes.substr(0, 60);
  }
}

TEST_F(HttpServerTest, AStreamGetsWhatIsSentAndItsEndIsNoticed) {
  Client client(address_);
  client.send(get("/stream"));
  EXPECT_THAT(client.read("data: 1\n\n"), testing::HasSubstr("text/event-stream"));
  stream_->send("data: 2\n\n");
  EXPECT_THAT(client.read("data: 2\n\n"), testing::EndsWith("data: 2\n\n"));
  EXPECT_FALSE(stream_->closed());
  client.end();
  EXPECT_TRUE(soon_closed());
}

TEST_F(HttpServerTest, AReaderWhoTakesNothingIsLetGo) {
  Client client(address_);
  client.send(get("/stream"));
  client.read("data: 1\n\n");
  for (int i = 0; i < 64 && !stream_->closed(); ++i) {
    stream_->send(std::string(1 << 20, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(soon_closed());
}

TEST_F(HttpServerTest, TooManyAreToldSoAndAfterwardsThereIsRoom) {
  std::vector<std::unique_ptr<Client>> silent;
  for (std::size_t i = 0; i < HttpServer::kMostConnections; ++i)
    silent.push_back(std::make_unique<Client>(address_));
  std::string refused;
  for (int i = 0; i < 200 && refused.find("503") == std::string::npos; ++i) {
    Client client(address_);
    client.send(get("/", "Connection: close\r\n"));
    refused = client.read_all();
  }
  EXPECT_THAT(refused, testing::HasSubstr("HTTP/1.1 503 "));
  silent.clear();
  std::string answered;
  for (int i = 0; i < 200 && answered.find("200 OK") == std::string::npos; ++i) {
    Client client(address_);
    client.send(get("/", "Connection: close\r\n"));
    answered = client.read_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(answered, testing::HasSubstr("HTTP/1.1 200 OK"));
}

// A scraper gives up after some seconds, and asks again soon; an answer may take longer than that.
TEST_F(HttpServerTest, AClientThatLeavesBeforeItsAnswerTakesNoPlace) {
  std::vector<std::unique_ptr<Client>> waiting;
  for (std::size_t i = 0; i < HttpServer::kMostConnections; ++i) {
    waiting.push_back(std::make_unique<Client>(address_));
    waiting.back()->send(get("/never"));
  }
  for (int i = 0; i < 2000 && unanswered().size() < HttpServer::kMostConnections; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  waiting.clear();
  for (const auto& one : unanswered()) ASSERT_TRUE(soon_closed(*one));
  Client client(address_);
  client.send(get("/", "Connection: close\r\n"));
  EXPECT_THAT(client.read_all(), testing::StartsWith("HTTP/1.1 200 OK"));
}

// Some close their sending side behind the request.
TEST_F(HttpServerTest, AClientThatOnlySendsNoMoreHasItsAnswer) {
  Client client(address_);
  client.send(get("/never"));
  client.send_no_more();
  for (int i = 0; i < 2000 && unanswered().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_EQ(unanswered().size(), 1u);
  unanswered().front()->answer({.body = "late\n"});
  EXPECT_THAT(client.read("late\n"), testing::EndsWith("late\n"));
}

TEST_F(HttpServerTest, StreamsAreLimitedToo) {
  std::vector<std::unique_ptr<Client>> pages;
  for (std::size_t i = 0; i < HttpServer::kMostStreams; ++i) {
    pages.push_back(std::make_unique<Client>(address_));
    pages.back()->send(get("/stream"));
    EXPECT_THAT(pages.back()->read("data: 1\n\n"), testing::HasSubstr("data: 1"));
  }
  Client one_more(address_);
  one_more.send(get("/stream"));
  EXPECT_THAT(one_more.read_all(), testing::StartsWith("HTTP/1.1 503 "));
}

// The page comes at once, because a browser follows a redirect without the cookie if a link on another site
// led here.
TEST(UiServerTest, GivesACookieAndThePageForTheToken) {
  auto listening = listen_at("127.0.0.1:0");
  const std::string address = listening->address;
  const auto server = UiServer::open(*std::move(listening), {.roots = {}, .token = std::string(32, 'a')});
  ASSERT_TRUE(server.ok());
  std::thread runs([&] { (*server)->run(); });
  Client client(address);
  client.send("GET /?token=" + std::string(32, 'a') + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n");
  const std::string answer = client.read("</html>");
  (*server)->stop();
  runs.join();
  EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer,
              testing::HasSubstr("=" + std::string(32, 'a') + "; Path=/; HttpOnly; SameSite=Strict\r\n"));
  EXPECT_THAT(answer, testing::HasSubstr("Referrer-Policy: no-referrer\r\n"));
  EXPECT_THAT(answer, testing::HasSubstr("<main id=\"page\""));
  EXPECT_EQ(answer.find("token="), std::string::npos);
}

}  // namespace
}  // namespace paceline::ui
