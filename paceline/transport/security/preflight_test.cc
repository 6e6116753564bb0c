// Each answer that a process may meet at a coordinator's address: none, another program's, TLS or none, the
// wrong certificates.
#include "paceline/transport/security/preflight.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/transport/security/certificate_text.h"
#include "paceline/transport/security/proof.h"
#include "paceline/transport/security/testing/temp_folder.h"

namespace paceline::security {
namespace {

using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef0123456789abcdef";
constexpr char kSettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};

// Answers one connection and closes.
class Listener {
 public:
  explicit Listener(std::function<void(int)> answer) : listening_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listening_, 1), 0);
    EXPECT_EQ(getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int connection = accept(listening_, nullptr, nullptr);
      answer(connection);
      close(connection);
    });
  }
  ~Listener() {
    thread_.join();
    close(listening_);
  }
  const std::string& address() const { return address_; }

 private:
  const int listening_;
  std::string address_;
  std::thread thread_;
};

void read_some(int connection) {
  char bytes[256];
  EXPECT_GE(recv(connection, bytes, sizeof bytes, 0), 0);
}

// Answers like a coordinator with these certificates; `silent`: like gRPC when it refuses our certificate.
std::function<void(int)> coordinator(const Credentials& own, bool silent = false) {
  return [own, silent](int connection) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    const SslContext context(SSL_CTX_new(TLS_server_method()));
    const Certificate authority = certificate_of(own.authority);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get());
    const Certificate certificate = certificate_of(own.certificate);
    const Key key = key_of(own.key);
    SSL_CTX_use_certificate(context.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), key.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    const Ssl ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), connection);
    if (SSL_accept(ssl.get()) != 1 || silent) return;
    SSL_write(ssl.get(), kSettings, sizeof kSettings);
    char byte = 0;
    SSL_read(ssl.get(), &byte, 1);  // until the other side has gone
  };
}

class Preflight : public ::testing::Test {
 protected:
  Credentials credentials(const std::string& authority, const std::string& job, Role role) {
    const auto dir = folder_.path() / authority;
    if (!std::filesystem::exists(dir / job)) {
      EXPECT_TRUE(make_certificates({dir, job}).ok());
    }
    const auto read = read_credentials(dir / job, role);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(Credentials{});
  }
  const TempFolder folder_;
};

void expect_refused(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
}

TEST_F(Preflight, NobodyIsThere) {
  std::string address;
  {
    const Listener listener([](int) {});
    address = listener.address();
    EXPECT_FALSE(connect_with_token(address, kToken, 5s).ok());
  }
  EXPECT_TRUE(absl::IsUnavailable(connect_with_token(address, kToken, 5s).status()));
  EXPECT_TRUE(absl::IsUnavailable(connect_with_token("no-such-host.invalid:1", kToken, 5s).status()));
  expect_refused(connect_with_token("nowhere", kToken, 5s).status(), "HOST:PORT");
}

TEST_F(Preflight, IsUnavailableWhileThePeerIsSilent) {
  const Listener listener([](int connection) {
    read_some(connection);
    char byte = 0;
    EXPECT_EQ(recv(connection, &byte, 1, 0), 0);  // until the other side has gone
  });
  EXPECT_TRUE(absl::IsUnavailable(connect_with_token(listener.address(), kToken, 50ms).status()));
}

TEST_F(Preflight, WithoutCertificates) {
  const auto answer_with = [](std::string words) {
    return [words](int connection) {
      read_some(connection);
      EXPECT_EQ(send(connection, words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
    };
  };
  expect_refused(
      connect_with_token(Listener(answer_with("SSH-2.0-OpenSSH_9.2\r\n")).address(), kToken, 5s).status(),
      "something else");
  expect_refused(
      connect_with_token(Listener(answer_with({"\x15\3\3\0\2\2\x28", 7})).address(), kToken, 5s).status(),
      "speaks TLS");
  expect_refused(connect_with_token(Listener(answer_with(std::string(kOpening) +
                                                         std::string(kAnswerBytes - kOpening.size(), 'x')))
                                        .address(),
                                    kToken, 5s)
                     .status(),
                 "does not have this token");
}

// An impostor in the coordinator's place receives a nonce and nothing that depends on the token.
TEST_F(Preflight, AnImpostorLearnsNothingOfTheToken) {
  std::string heard;
  {
    const Listener listener([&](int connection) {
      std::string bytes(4096, '\0');
      bytes.resize(static_cast<std::size_t>(recv(connection, bytes.data(), kOpeningBytes, MSG_WAITALL)));
      heard = bytes;
      const std::string answer(kAnswerBytes, 'x');
      EXPECT_EQ(send(connection, answer.data(), answer.size(), 0), static_cast<ssize_t>(answer.size()));
      bytes.resize(4096);
      EXPECT_EQ(recv(connection, bytes.data(), bytes.size(), MSG_WAITALL), 0) << "it went";
    });
    EXPECT_FALSE(connect_with_token(listener.address(), kToken, 5s).ok());
  }
  ASSERT_EQ(heard.size(), kOpeningBytes);
  EXPECT_TRUE(heard.starts_with(kOpening));
  EXPECT_EQ(heard.find(kToken), std::string::npos);
}

TEST_F(Preflight, TheCertificatesOfTheSameJob) {
  const Listener listener(coordinator(credentials("ours", "mnist", Role::kCoordinator)));
  const absl::Status status = preflight(listener.address(), credentials("ours", "mnist", Role::kWorker), 5s);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(Preflight, AnotherAuthority) {
  {
    const Listener listener(coordinator(credentials("ours", "mnist", Role::kCoordinator)));
    expect_refused(preflight(listener.address(), credentials("theirs", "mnist", Role::kWorker), 5s),
                   "not of this job's authority");
  }
  // This process trusts the coordinator's authority, but the coordinator does not trust its certificate.
  const Listener listener(coordinator(credentials("ours", "mnist", Role::kCoordinator)));
  Credentials stranger = credentials("theirs", "mnist", Role::kWorker);
  stranger.authority = credentials("ours", "mnist", Role::kWorker).authority;
  expect_refused(preflight(listener.address(), stranger, 5s), "does not know the authority");
}

TEST_F(Preflight, ClosedInSilence) {
  const Credentials own = credentials("ours", "mnist", Role::kWorker);
  {
    const Listener listener(coordinator(credentials("ours", "mnist", Role::kCoordinator), true));
    const absl::Status status = preflight(listener.address(), own, 5s);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_NE(status.message().find("does not take this certificate"), std::string::npos) << status;
  }
  EXPECT_TRUE(absl::IsAborted(connect_with_token(Listener(read_some).address(), kToken, 5s).status()));
  const Listener listener(read_some);  // closes before it has shown a certificate
  EXPECT_TRUE(absl::IsUnavailable(preflight(listener.address(), own, 5s)));
}

TEST_F(Preflight, AnotherJob) {
  const Listener listener(coordinator(credentials("ours", "mnist", Role::kCoordinator)));
  expect_refused(preflight(listener.address(), credentials("ours", "cifar", Role::kWorker), 5s),
                 "is of the job 'mnist', and this certificate of 'cifar'");
}

TEST_F(Preflight, AWorkerIsNoCoordinator) {
  const Listener listener(coordinator(credentials("ours", "mnist", Role::kServer)));
  expect_refused(preflight(listener.address(), credentials("ours", "mnist", Role::kWorker), 5s),
                 "certificate");
}

TEST_F(Preflight, NoTlsWhereThereShouldBe) {
  const Listener listener([](int connection) {
    read_some(connection);
    EXPECT_EQ(send(connection, kSettings, sizeof kSettings, 0), 9);
  });
  expect_refused(preflight(listener.address(), credentials("ours", "mnist", Role::kWorker), 5s),
                 "does not speak TLS");
}

}  // namespace
}  // namespace paceline::security
