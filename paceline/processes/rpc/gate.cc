#include "paceline/processes/rpc/gate.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/security/proof.h"
#include "paceline/transport/security/token.h"

namespace paceline::rpc {

namespace {

using std::chrono::milliseconds;

constexpr int kAcceptedAtOnce = 64;
constexpr milliseconds kWithoutDescriptors{200};
constexpr std::chrono::seconds kSayDroppedEvery{10};
// how long gRPC takes to close a connection whose handshake took too long
constexpr std::chrono::seconds kClosing{1};
constexpr std::size_t kManyHandshakes = 100;
constexpr unsigned char kTlsHandshake = 22;
// TLS's reply to a peer that does not speak TLS: a fatal alert, unexpected_message (RFC 8446, 6).
constexpr std::string_view kTlsAlert{"\x15\x03\x01\x00\x02\x02\x0a", 7};

std::string address_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                                port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  return error == 0 ? host_port(host.data(), port.data()) : "an unknown address";
}

// Sends a few bytes, for which a socket has room.
bool say(int socket, std::string_view words) {
  return send(socket, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(words.size());
}

std::string refusal(const std::string& address) {
  return fmt::format("refused a process at {}: it does not show this job's token", address);
}

std::size_t file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return std::min<std::size_t>(limit.rlim_cur, INT_MAX);
}

// Strangers leave most file descriptors to the job.
std::size_t most_strangers() { return std::clamp<std::size_t>(file_limit() / 4, 1, Gate::kMostStrangers); }
std::size_t most_handshakes() { return std::clamp<std::size_t>(file_limit() / 8, 2, Gate::kMostHandshakes); }

void count_one_less(std::map<std::string, std::size_t>& counts, const std::string& of) {
  const auto found = counts.find(of);
  if (--found->second == 0) counts.erase(found);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::open(FileDescriptor listening, Options options) {
  PACELINE_ASSIGN_OR_RETURN(WakeEvent woken, WakeEvent::create());
  return std::unique_ptr<Gate>(new Gate(std::move(listening), std::move(woken), std::move(options)));
}

Gate::Gate(FileDescriptor listening, WakeEvent woken, Options options)
    : listening_(std::move(listening)),
      woken_(std::move(woken)),
      options_(std::move(options)),
      most_strangers_(most_strangers()),
      most_descriptors_(static_cast<int>(file_limit() - file_limit() / 4)),
      most_at_once_(most_handshakes()) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Gate::~Gate() {
  thread_.request_stop();
  woken_.wake();
  thread_.join();
}

void Gate::run(const std::stop_token& stop) {
  std::vector<pollfd> watched;
  while (!stop.stop_requested()) {
    watched.assign({{woken_.fd(), POLLIN, 0}});
    const auto now = Clock::now();
    watched.push_back({now < accept_again_ ? -1 : listening_.get(), POLLIN, 0});
    for (const Stranger& stranger : strangers_)
      watched.push_back({stranger.waits ? -1 : stranger.connection.get(), POLLIN, 0});
    // A time limit is needed only if there are strangers, or something to give back or to say.
    const bool all_quiet =
        strangers_.empty() && now >= accept_again_ && dropped_ == 0 && most_handshakes_ == 0;
    poll(watched.data(), watched.size(), all_quiet ? -1 : static_cast<int>(kWithoutDescriptors.count()));
    auto watch = watched.begin() + 2;
    for (auto one = strangers_.begin(); one != strangers_.end(); ++watch) {
      const bool hears = (watch->fd >= 0 && watch->revents != 0) || one->waits;
      one = !hears || hear(*one) ? std::next(one) : forget(one);
    }
    drop_late();
    forget_handshakes();
    if (watched[1].revents != 0) accept_some();
    say_dropped();
  }
}

void Gate::accept_some() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    FileDescriptor connection(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid() && (errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
      drop_one();
      continue;
    }
    if (!connection.valid()) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        accept_again_ = Clock::now() + kWithoutDescriptors;
      return;
    }
    if (strangers_.size() >= most_strangers_) drop_one();
    Stranger& stranger = strangers_.emplace_back();
    stranger.connection = std::move(connection);
    stranger.address = address_of(address, size);
    stranger.source = stranger.address.substr(0, stranger.address.rfind(':'));
    ++strangers_of_[stranger.source];
    stranger.until = Clock::now() + kPatience;
    // The first bytes of a stranger are often here already.
    if (!hear(stranger)) forget(std::prev(strangers_.end()));
  }
}

Gate::Strangers::iterator Gate::forget(Strangers::iterator stranger) {
  count_one_less(strangers_of_, stranger->source);
  return strangers_.erase(stranger);
}

// Drops the first stranger of the source that has most of them. Requires: there is one.
void Gate::drop_one() {
  const auto most = std::max_element(strangers_of_.begin(), strangers_of_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  forget(std::find_if(strangers_.begin(), strangers_.end(),
                      [&](const Stranger& one) { return one.source == most->first; }));
  ++dropped_;
}

bool Gate::hear(Stranger& stranger) {
  return options_.tls ? hear_first_of_tls(stranger) : hear_proof(stranger);
}

bool Gate::hear_first_of_tls(Stranger& stranger) {
  unsigned char first = 0;
  const ssize_t count = recv(stranger.connection.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  if (first != kTlsHandshake) {
    say(stranger.connection.get(), kTlsAlert);
    options_.refused(fmt::format("refused a connection of {}: it does not speak TLS", stranger.address));
    return false;
  }
  stranger.waits = !may_shake_hands(stranger.source);
  if (!stranger.waits) let_in(stranger);
  return stranger.waits;
}

// True if a place is left for this source's handshake, and takes it. A source may have at most as many places
// as stay free, so a source without a handshake finds one while any is free.
bool Gate::may_shake_hands(const std::string& source) {
  forget_handshakes();
  const auto found = handshakes_of_.find(source);
  const std::size_t own = found == handshakes_of_.end() ? 0 : found->second;
  if (own >= most_at_once_ - handshakes_.size()) return false;
  handshakes_.push_back({Clock::now(), source});
  ++handshakes_of_[source];
  most_handshakes_ = std::max(most_handshakes_, handshakes_.size());
  return true;
}

// After many handshakes the C library keeps their memory in pieces. It is given back once they are over.
void Gate::forget_handshakes() {
  const auto now = Clock::now();
  while (!handshakes_.empty() && handshakes_.front().began + kHandshakeLimit + kClosing < now) {
    count_one_less(handshakes_of_, handshakes_.front().source);
    handshakes_.pop_front();
  }
  if (!handshakes_.empty() || most_handshakes_ == 0) return;
  if (std::exchange(most_handshakes_, 0) >= kManyHandshakes) malloc_trim(0);
}

bool Gate::hear_proof(Stranger& stranger) {
  const bool opened = !stranger.own_nonce.empty();
  const std::size_t wanted = opened ? security::kProofBytes : security::kOpeningBytes;
  std::array<char, security::kOpeningBytes> bytes{};
  const ssize_t count =
      recv(stranger.connection.get(), bytes.data(), wanted - stranger.said.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {
    // The stranger has seen the coordinator's proof, and left because it has another token.
    if (opened) options_.refused(refusal(stranger.address));
    return false;
  }
  stranger.said.append(bytes.data(), static_cast<std::size_t>(count));
  // A stranger that begins with other words is refused at once.
  const std::string_view begin = std::string_view(stranger.said).substr(0, security::kOpening.size());
  if (!opened && !security::kOpening.starts_with(begin)) {
    say(stranger.connection.get(), security::kRefusal);
    ++dropped_;
    return false;
  }
  if (stranger.said.size() < wanted) return true;
  if (!opened) return answer(stranger);
  const std::string right =
      security::proof_of(security::Side::kPeer, options_.token, stranger.peers_nonce, stranger.own_nonce);
  if (!security::same_token(stranger.said, right)) {
    say(stranger.connection.get(), security::kRefusal);
    options_.refused(refusal(stranger.address));
  } else if (say(stranger.connection.get(), security::kWelcome)) {
    let_in(stranger);
  }
  return false;
}

bool Gate::answer(Stranger& stranger) {
  const auto theirs = security::nonce_in(stranger.said);
  const auto own = security::make_nonce();
  if (!theirs || !own.ok()) return false;
  stranger.peers_nonce = *theirs;
  stranger.own_nonce = *own;
  stranger.said.clear();
  return say(stranger.connection.get(),
             std::string(security::kOpening) + *own +
                 security::proof_of(security::Side::kCoordinator, options_.token, *theirs, *own));
}

// A new connection has the lowest free number, so its number tells how many are taken.
void Gate::let_in(Stranger& stranger) {
  if (stranger.connection.get() >= most_descriptors_) {
    options_.refused(fmt::format(
        "refused a process at {}: too many processes of this job are connected: {} files are open",
        stranger.address, stranger.connection.get()));
    return;
  }
  const int at_once = 1;
  setsockopt(stranger.connection.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  options_.admit(std::move(stranger.connection));
}

void Gate::drop_late() {
  const auto now = Clock::now();
  while (!strangers_.empty() && strangers_.front().until < now) {
    forget(strangers_.begin());
    ++dropped_;
  }
}

void Gate::say_dropped() {
  const auto now = Clock::now();
  if (dropped_ == 0 || now < said_dropped_ + kSayDroppedEvery) return;
  options_.refused(fmt::format("closed {} connection{} that did not begin as a process of this job does",
                               dropped_, dropped_ == 1 ? "" : "s"));
  dropped_ = 0;
  said_dropped_ = now;
}

}  // namespace paceline::rpc
