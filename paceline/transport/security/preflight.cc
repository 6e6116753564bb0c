#include "paceline/transport/security/preflight.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/security/certificate_text.h"
#include "paceline/transport/security/openssl.h"
#include "paceline/transport/security/proof.h"
#include "paceline/transport/security/token.h"

namespace paceline::security {

namespace {

constexpr char kTlsAlert = 21;
constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
// gRPC's first choice is first, so that the other side need not ask for it and begin again.
constexpr char kGroups[] = "P-256:X25519";

// OpenSSL writes with write(2), which raises SIGPIPE if the other side has gone. This thread gets no SIGPIPE
// while such an object lives.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  ~NoSigpipe() {
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
};

absl::Status nobody(const std::string& address, const std::string& why) {
  return absl::UnavailableError(fmt::format("no coordinator answers at {}: {}", address, why));
}

absl::Status refused(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(fmt::format("the coordinator at {} {}", address, why));
}

absl::Status closed(const std::string& address, const std::string& why) {
  return absl::AbortedError(refused(address, why).message());
}

timeval as_timeval(std::chrono::milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
}

// Connects; connecting, reading and writing wait no longer than `limit` each.
absl::StatusOr<FileDescriptor> connect_to(const addrinfo& where, const std::string& address,
                                          std::chrono::milliseconds limit) {
  FileDescriptor made(::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol));
  const timeval patience = as_timeval(limit);
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(made.get(), where.ai_addr, where.ai_addrlen) == 0) return made;
  return nobody(address, errno == EINPROGRESS ? "no answer in time" : std::strerror(errno));
}

absl::StatusOr<FileDescriptor> connect_to(const std::string& address, std::chrono::milliseconds limit) {
  const auto found = look_up(address);
  if (absl::IsInvalidArgument(found.status())) return absl::FailedPreconditionError(found.status().message());
  if (!found.ok()) return nobody(address, std::string(found.status().message()));
  absl::Status why = nobody(address, "it has no address");
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    auto made = connect_to(*one, address, limit);
    if (made.ok()) return made;
    why = made.status();
  }
  return why;
}

absl::StatusOr<std::string> hear(const FileDescriptor& socket, std::size_t bytes,
                                 const std::string& address) {
  std::string said(bytes, '\0');
  const ssize_t count = ::recv(socket.get(), said.data(), said.size(), MSG_WAITALL);
  if (count > 0 && said.front() == kTlsAlert) return refused(address, "speaks TLS; say --certs DIR");
  if (count < 0 && errno != ECONNRESET) return nobody(address, "it says nothing");
  if (count <= 0) return closed(address, "closed the connection; if it speaks TLS, say --certs DIR");
  if (count == static_cast<ssize_t>(bytes)) return said;
  return refused(address, "is not a coordinator: something else listens there");
}

absl::Status say(const FileDescriptor& socket, const std::string& words, const std::string& address) {
  if (::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(words.size()))
    return absl::OkStatus();
  return nobody(address, std::strerror(errno));
}

absl::StatusOr<SslContext> context_of(const Credentials& own) {
  SslContext context(SSL_CTX_new(TLS_client_method()));
  const Certificate authority = certificate_of(own.authority);
  const Certificate certificate = certificate_of(own.certificate);
  const Key key = key_of(own.key);
  const bool good = context != nullptr && authority != nullptr && certificate != nullptr && key != nullptr &&
                    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
                    SSL_CTX_set1_groups_list(context.get(), kGroups) == 1 &&
                    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1 &&
                    SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                    SSL_CTX_set_alpn_protos(context.get(), kHttp2.data(), kHttp2.size()) == 0;
  if (!good) return absl::InternalError(fmt::format("cannot set TLS up: {}", openssl_error()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

// The words for the other side's alert about our certificate.
std::string words_of_alert(int reason) {
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "does not know the authority of this certificate: it is of another one";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "says that this certificate has expired; compare the clocks of both hosts";
    default:
      return "does not take this certificate: it is of another authority, or not for connecting to one";
  }
}

absl::Status tls_trouble(const Ssl& ssl, int result, const std::string& address) {
  const int kind = SSL_get_error(ssl.get(), result);
  const int error = errno;
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const long verified = SSL_get_verify_result(ssl.get());
  ERR_clear_error();
  if (verified != X509_V_OK) {
    return refused(address, fmt::format("shows a certificate that is not of this job's authority: {}",
                                        X509_verify_cert_error_string(verified)));
  }
  if (kind == SSL_ERROR_SSL && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST))
    return refused(address, "does not speak TLS; leave --certs out, or have it use certificates");
  if (kind == SSL_ERROR_SSL && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return refused(address, words_of_alert(reason));
  if (kind == SSL_ERROR_WANT_READ || (kind == SSL_ERROR_SYSCALL && error == EAGAIN))
    return nobody(address, "it says nothing");
  // A coordinator that has not shown its own certificate has refused nothing: it may be ending.
  if (SSL_get0_peer_certificate(ssl.get()) == nullptr)
    return nobody(address, "it closed the connection while TLS was being agreed on");
  return closed(address, words_of_alert(0));
}

absl::Status handshake(const Credentials& own, const FileDescriptor& socket, const std::string& address) {
  const NoSigpipe quiet;
  PACELINE_ASSIGN_OR_RETURN(const SslContext context, context_of(own));
  const Ssl ssl(SSL_new(context.get()));
  const std::string name = coordinator_name(own.own.job);
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket.get()) != 1 ||
      SSL_set_tlsext_host_name(ssl.get(), name.c_str()) != 1)
    return absl::InternalError(fmt::format("cannot set TLS up: {}", openssl_error()));
  if (const int result = SSL_connect(ssl.get()); result != 1) return tls_trouble(ssl, result, address);
  const Certificate certificate(SSL_get1_peer_certificate(ssl.get()));
  const auto other = identity_of(certificate.get());
  if (!other || other->role != Role::kCoordinator)
    return refused(address, "shows a certificate that is not a coordinator's");
  if (other->job != own.own.job) {
    return refused(address,
                   fmt::format("is of the job '{}', and this certificate of '{}'", other->job, own.own.job));
  }
  // With TLS 1.3 the coordinator looks at our certificate only after the handshake is done on this side.
  char first = 0;
  const int result = SSL_read(ssl.get(), &first, 1);
  if (result != 1) return tls_trouble(ssl, result, address);
  SSL_shutdown(ssl.get());
  return absl::OkStatus();
}

}  // namespace

absl::Status preflight(const std::string& address, const Credentials& own, std::chrono::milliseconds limit) {
  PACELINE_ASSIGN_OR_RETURN(const FileDescriptor socket, connect_to(address, limit));
  return handshake(own, socket, address);
}

absl::StatusOr<FileDescriptor> connect_with_token(const std::string& address, const std::string& token,
                                                  std::chrono::milliseconds limit) {
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor socket, connect_to(address, limit));
  PACELINE_ASSIGN_OR_RETURN(const std::string own, make_nonce());
  PACELINE_RETURN_IF_ERROR(say(socket, std::string(kOpening) + own, address));
  PACELINE_ASSIGN_OR_RETURN(const std::string answer, hear(socket, kAnswerBytes, address));
  const auto theirs = nonce_in(answer.substr(0, kOpeningBytes));
  if (!theirs) return refused(address, "is not a coordinator: something else listens there");
  if (!same_token(answer.substr(kOpeningBytes), proof_of(Side::kCoordinator, token, own, *theirs)))
    return refused(address, "does not have this token: it is another job's, or the token is");
  PACELINE_RETURN_IF_ERROR(say(socket, proof_of(Side::kPeer, token, own, *theirs), address));
  PACELINE_ASSIGN_OR_RETURN(const std::string verdict, hear(socket, kVerdictBytes, address));
  if (verdict != kWelcome) return refused(address, "refused this process");
  const int at_once = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  return socket;
}

}  // namespace paceline::security
