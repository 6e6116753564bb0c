// Strangers at the gate of a real gRPC server: silent ones, babbling ones, many; and those who belong there.
#include "paceline/processes/rpc/gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/listening_socket.h"
#include "paceline/transport/security/preflight.h"
#include "paceline/transport/security/proof.h"

namespace paceline::rpc {
namespace {

using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef0123456789abcdef";

class GateTest : public ::testing::Test {
 protected:
  GateTest() { getrlimit(RLIMIT_NOFILE, &limit_); }
  ~GateTest() override {
    gate_.reset();
    setrlimit(RLIMIT_NOFILE, &limit_);
  }

  // Sets the limit of file descriptors to `files`, or to as many as the system allows.
  rlim_t raise_limit(rlim_t files) const {
    rlimit limit = limit_;
    limit.rlim_cur = std::min(limit.rlim_max, files);
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }

  void open(bool tls) {
    gate_.reset();
    admitted_.clear();
    ListeningSocket listening = listen_at("127.0.0.1:0").value();
    address_ = listening.address;
    gate_ = Gate::open(std::move(listening.socket),
                       {.token = kToken,
                        .tls = tls,
                        .admit = [this](FileDescriptor one) { admit(std::move(one)); },
                        .refused = [this](const std::string& line) { note(line); }})
                .value();
  }

  // `from`: the last number of this end's address, 127.0.0.X.
  FileDescriptor connect(std::uint32_t from = 1) const {
    FileDescriptor made(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in own{.sin_family = AF_INET,
                          .sin_port = 0,
                          .sin_addr = {htonl(INADDR_LOOPBACK + from - 1)},
                          .sin_zero = {}};
    EXPECT_EQ(bind(made.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    sockaddr_in to{
        .sin_family = AF_INET,
        .sin_port = htons(static_cast<std::uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)))),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
        .sin_zero = {}};
    EXPECT_EQ(::connect(made.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return made;
  }

  static void say(const FileDescriptor& connection, std::string_view words) {
    EXPECT_EQ(send(connection.get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
  }
  // All bytes that come until the other side closes.
  static std::string rest(const FileDescriptor& connection) {
    std::string all;
    char bytes[256];
    for (ssize_t count = 0; (count = recv(connection.get(), bytes, sizeof bytes, 0)) > 0;)
      all.append(bytes, static_cast<std::size_t>(count));
    return all;
  }

  std::size_t admitted() {
    const std::lock_guard lock(mutex_);
    return admitted_.size();
  }
  bool noted(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

 private:
  void admit(FileDescriptor one) {
    const std::lock_guard lock(mutex_);
    admitted_.push_back(std::move(one));
  }
  void note(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }

 protected:
  std::string address_;

 private:
  std::mutex mutex_;
  std::vector<FileDescriptor> admitted_;
  std::vector<std::string> lines_;
  rlimit limit_{};
  std::unique_ptr<Gate> gate_;
};

// A trial that takes less time than the gate's patience shows what the gate does before the patience runs
// out. Calls `trial`, which has the expectations, until one trial was that fast. False if all take longer.
bool any_in_time(const auto& trial) {
  constexpr int kTrials = 5;
  constexpr auto kWellBefore = std::min(Gate::kPatience, Gate::kHandshakeLimit) - 1s;
  for (int i = 0; i < kTrials; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const auto expect = trial();
    if (std::chrono::steady_clock::now() - began > kWellBefore) continue;
    expect();
    return true;
  }
  return false;
}

bool eventually(const auto& done) {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
  return done();
}

TEST_F(GateTest, AdmitsAPeerWithTheToken) {
  open(false);
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto entered = security::connect_with_token(address_, kToken, 5s);
    EXPECT_TRUE(entered.ok()) << entered.status();
    while (admitted() < i) std::this_thread::yield();
  }
}

TEST_F(GateTest, RefusesAPeerWithAnotherToken) {
  open(false);
  const auto entered = security::connect_with_token(address_, "another" + kToken, 5s);
  EXPECT_NE(entered.status().message().find("does not have this token"), std::string::npos)
      << entered.status();
  // This impostor does not check whether the coordinator has the token.
  const FileDescriptor impostor = connect();
  say(impostor, std::string(security::kOpening) + std::string(security::kNonceBytes, 'n'));
  std::string answer(security::kAnswerBytes, '\0');
  EXPECT_EQ(recv(impostor.get(), answer.data(), answer.size(), MSG_WAITALL), 72);
  say(impostor, std::string(security::kProofBytes, 'x'));
  EXPECT_EQ(rest(impostor), security::kRefusal);
  EXPECT_TRUE(noted("does not show this job's token"));
  EXPECT_EQ(admitted(), 0u);
}

// An impostor that sends back the coordinator's own proof is not let in either.
TEST_F(GateTest, RefusesTheCoordinatorsOwnProof) {
  open(false);
  const FileDescriptor impostor = connect();
  say(impostor, std::string(security::kOpening) + std::string(security::kNonceBytes, 'n'));
  std::string answer(security::kAnswerBytes, '\0');
  EXPECT_EQ(recv(impostor.get(), answer.data(), answer.size(), MSG_WAITALL), 72);
  say(impostor, answer.substr(security::kOpeningBytes));
  EXPECT_EQ(rest(impostor), security::kRefusal);
  EXPECT_EQ(admitted(), 0u);
}

TEST_F(GateTest, ClosesAConnectionThatSaysSomethingElse) {
  open(false);
  for (const char* words : {"PRI * HTTP/2.0\r\n", "\x16\x03\x01", "GET / HTTP/1.1\r\n", "paceliner"}) {
    const FileDescriptor stranger = connect();
    say(stranger, words);
    if (std::string(words) == "paceliner") continue;  // may still become one
    EXPECT_EQ(rest(stranger), security::kRefusal) << words;
  }
  EXPECT_EQ(admitted(), 0u);
}

TEST_F(GateTest, ClosesASilentConnectionInTheEnd) {
  open(false);
  const FileDescriptor silent = connect();
  EXPECT_EQ(rest(silent), "");
}

TEST_F(GateTest, DropsTheOldestOfManySilentConnections) {
  const rlim_t limit = raise_limit(4096);
  const std::size_t many = std::min<std::size_t>(Gate::kMostStrangers, limit / 4) + 100;
  const bool in_time = any_in_time([&] {
    open(false);
    std::vector<FileDescriptor> silent;
    for (std::size_t i = 0; i < many; ++i) silent.push_back(connect());
    const auto entered = security::connect_with_token(address_, kToken, 5s);
    EXPECT_EQ(rest(silent.front()), "");
    char byte = 0;
    const bool waits = recv(silent.back().get(), &byte, 1, MSG_DONTWAIT) == -1;
    return [waits, status = entered.status()] {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(waits) << "the newest waits";
    };
  });
  EXPECT_TRUE(noted("that did not begin as a process of this job does"));
  if (!in_time) GTEST_SKIP() << "this machine is too slow: the patience with all of them ran out";
}

// A host that is silent so often that it uses up its own places takes none from other hosts.
TEST_F(GateTest, DropsConnectionsOfTheHostThatHasMost) {
  const rlim_t limit = raise_limit(4096);
  const std::size_t many = std::min<std::size_t>(Gate::kMostStrangers, limit / 4) + 100;
  const bool in_time = any_in_time([&] {
    open(false);
    const FileDescriptor first = connect(3);
    std::vector<FileDescriptor> silent;
    for (std::size_t i = 0; i < many; ++i) silent.push_back(connect(2));
    EXPECT_EQ(rest(silent.front()), "");
    char byte = 0;
    const bool waits = recv(first.get(), &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
    return [waits] { EXPECT_TRUE(waits) << "it was the first of all"; };
  });
  if (!in_time) GTEST_SKIP() << "this machine is too slow: even the patience with those who wait ran out";
}

TEST_F(GateTest, TheLastQuarterOfTheDescriptorsIsNobodys) {
  raise_limit(240);
  open(false);
  std::vector<FileDescriptor> entered;
  for (int i = 0; i < 100; ++i) {
    auto one = security::connect_with_token(address_, kToken, 5s);
    if (one.ok()) entered.push_back(*std::move(one));
  }
  EXPECT_TRUE(eventually([&] { return noted("too many processes of this job"); }));
  EXPECT_GT(admitted(), 60u);
  EXPECT_LT(admitted(), 90u);
  FileDescriptor another(dup(0));
  EXPECT_LT(another.get(), 240);
}

TEST_F(GateTest, WithTlsTheFirstByteIsThatOfAHandshake) {
  open(true);
  const FileDescriptor plain = connect();
  say(plain, security::kOpening);
  EXPECT_EQ(rest(plain).substr(0, 1), "\x15");
  EXPECT_TRUE(noted("does not speak TLS"));
  const auto entered = security::connect_with_token(address_, kToken, 5s);
  EXPECT_NE(entered.status().message().find("speaks TLS"), std::string::npos) << entered.status();
  const FileDescriptor hello = connect();
  say(hello, "\x16\x03\x01");
  while (admitted() == 0) std::this_thread::yield();
}

// Code that counts descriptors in 16 bits, or has sets of a thousand, would fail here.
TEST_F(GateTest, DescriptorsBeyond64kAreLikeOthers) {
  const rlim_t limit = raise_limit(100'000);
  if (limit < 90'000) GTEST_SKIP() << "this system lets a process have " << limit << " files open";
  std::vector<FileDescriptor> below;
  while (below.empty() || below.back().get() < 66'000) {
    below.emplace_back(dup(STDIN_FILENO));
    ASSERT_TRUE(below.back().valid());
  }
  open(false);
  const auto entered = security::connect_with_token(address_, kToken, 5s);
  ASSERT_TRUE(entered.ok()) << entered.status();
  EXPECT_GT(entered->get(), 66'000);
  EXPECT_TRUE(eventually([&] { return admitted() == 1; }));
}

// One host begins as many handshakes as it likes and finishes none: others get in at once.
TEST_F(GateTest, AHostThatFloodsItKeepsNobodyElseOut) {
  constexpr rlim_t kFiles = 4096;
  const rlim_t limit = raise_limit(kFiles);
  if (limit < kFiles) GTEST_SKIP() << "this system lets a process have " << limit << " files open";
  const bool in_time = any_in_time([&] {
    open(true);
    std::vector<FileDescriptor> flood;
    for (int i = 0; i < 1200; ++i) {
      flood.push_back(connect(2));
      send(flood.back().get(), "\x16\x03\x01", 3, MSG_NOSIGNAL);
    }
    EXPECT_TRUE(eventually([&] { return admitted() >= Gate::kMostHandshakes / 2; }));
    std::this_thread::sleep_for(300ms);
    const std::size_t of_flood = admitted();
    std::vector<bool> let_in;
    for (const std::uint32_t from : {1u, 3u, 1u, 4u}) {
      const std::size_t before = admitted();
      const FileDescriptor other = connect(from);
      say(other, "\x16\x03\x01");
      let_in.push_back(eventually([&] { return admitted() > before; }));
    }
    return [=] {
      EXPECT_EQ(of_flood, Gate::kMostHandshakes / 2) << "no more than are left for others";
      EXPECT_EQ(let_in, std::vector<bool>(4, true));
    };
  });
  if (!in_time) GTEST_SKIP() << "this machine is too slow: the flood's own time ran out";
}

}  // namespace
}  // namespace paceline::rpc
