#include "paceline/transport/links/link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"

namespace paceline::links {

namespace {

using std::chrono::steady_clock;

constexpr auto kFinishStep = std::chrono::milliseconds(2);

constexpr auto kHeartbeat = std::chrono::milliseconds(500);
// This end stood still if it did not look for so long: its timer rings at each heartbeat.
constexpr auto kStoodStill = 2 * kHeartbeat;
// The most messages that one end offers before the other takes them.
constexpr int kMostOffers = 64;
// The most chunks under way: enough for the wire to have something to carry while either process waits for a
// processor.
constexpr int kMostChunks = 16;

bool add(const FileDescriptor& poll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(poll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Link::Link(std::unique_ptr<FramePort> port, const std::string& peer, const std::string& name,
           const LinkOptions& options)
    : peer_(peer),
      connects_(true),
      options_(options),
      began_(steady_clock::now()),
      frames_(std::move(port), *this) {
  watch();
  my_hello_ = say_hello(name);
}

Link::Link(std::unique_ptr<FramePort> port, const std::string& peer, Accept accept)
    : peer_(peer),
      connects_(false),
      accept_(std::move(accept)),
      began_(steady_clock::now()),
      frames_(std::move(port), *this) {
  watch();
}

Link::~Link() {
  Link* const self = this;
  finish({&self, 1});
}

void Link::close(std::vector<std::unique_ptr<Link>> links) {
  std::vector<Link*> all;
  for (const std::unique_ptr<Link>& link : links) all.push_back(link.get());
  finish(all);
}

void Link::finish(std::span<Link* const> links) {
  const auto began = steady_clock::now();
  const auto waits = [&](Link* link) {
    const bool finished = link->state_ != State::kOpen || !link->why_.ok() || link->frames_.finish();
    return !finished && steady_clock::now() < began + link->options_.finish;
  };
  // Each link gets a turn before any is waited for.
  while (std::ranges::count_if(links, waits) > 0) std::this_thread::sleep_for(kFinishStep);
  for (Link* link : links) link->abandon();
}

// Strangers may have taken everything that the system has: then the link ends, and not the process.
void Link::watch() {
  timer_ = FileDescriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  poll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  const timespec beat{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kHeartbeat).count()};
  const itimerspec period{.it_interval = beat, .it_value = beat};
  const bool watched = timer_.valid() && poll_.valid() &&
                       timerfd_settime(timer_.get(), 0, &period, nullptr) == 0 && add(poll_, timer_.get()) &&
                       add(poll_, frames_.fd());
  if (!watched) failed(absl::ResourceExhaustedError(std::strerror(errno)));
}

// ---- Hello

std::vector<std::byte> Link::say_hello(const std::string& text) {
  Hello hello{.sealed = options_.keys.has_value(), .most_payload = options_.most_payload, .text = text};
  random_bytes(hello.nonce);
  std::vector<std::byte> header = write_hello(hello);
  frames_.post(FrameKind::kHello, 0, 0, header);
  return header;
}

absl::Status Link::hear_answer(const Hello& hello) {
  if (!hello.text.empty()) return absl::FailedPreconditionError(fmt::format("it refused: {}", hello.text));
  if (hello.sealed != options_.keys.has_value()) {
    return absl::FailedPreconditionError("only one of the two ends has keys; give them to both, or to none");
  }
  get_ready();
  return absl::OkStatus();
}

absl::Status Link::answer(const Hello& hello) {
  peer_name_ = hello.text;
  const absl::StatusOr<LinkOptions> options = accept_(peer_name_);
  absl::Status refusal = options.status();
  if (options.ok()) options_ = *options;
  if (options.ok() && hello.sealed != options_.keys.has_value()) {
    refusal =
        absl::FailedPreconditionError("only one of the two ends has keys; give them to both, or to none");
  }
  my_hello_ = say_hello(std::string(refusal.message()));
  if (refusal.ok()) {
    get_ready();
    return absl::OkStatus();
  }
  state_ = State::kRefused;
  why_ = absl::FailedPreconditionError(
      fmt::format("link to {}: refused: {}", peer_, std::string(refusal.message())));
  return absl::OkStatus();
}

void Link::get_ready() {
  if (options_.keys) {
    std::vector<std::byte> said = connects_ ? my_hello_ : peers_hello_;
    const std::vector<std::byte>& answered = connects_ ? peers_hello_ : my_hello_;
    said.insert(said.end(), answered.begin(), answered.end());
    frames_.seal(derive_key(options_.keys->send, said), derive_key(options_.keys->receive, said));
  }
  state_ = State::kReady;
  frames_.post(FrameKind::kReady, 0, 0);
}

// ---- Contents of frames

absl::Status Link::may_come(FrameKind kind) {
  if (!why_.ok()) return why_;
  const bool right = state_ == State::kHello   ? kind == FrameKind::kHello
                     : state_ == State::kReady ? kind == FrameKind::kReady
                                               : kind > FrameKind::kReady;
  return right ? absl::OkStatus() : absl::DataLossError("a frame came that is not due");
}

absl::StatusOr<std::span<std::byte>> Link::place(const FrameHead& chunk, std::size_t data_bytes) {
  const auto found = incoming_.find(chunk.message);
  if (found == incoming_.end() || !found->second.taken) {
    return absl::DataLossError("a chunk came of a message that is not to come");
  }
  Incoming& message = found->second;
  if (chunk.bytes != message.begun || data_bytes > message.bytes - message.begun) {
    return absl::DataLossError("a chunk came that its message has no place for");
  }
  message.begun += data_bytes;
  return message.memory.subspan(chunk.bytes, data_bytes);
}

absl::Status Link::came(const FrameHead& head, std::span<const std::byte> header,
                        std::span<const std::byte> data) {
  if (!why_.ok()) return absl::OkStatus();
  switch (head.kind) {
    case FrameKind::kHello: {
      PACELINE_ASSIGN_OR_RETURN(const Hello hello, read_hello(header));
      peers_hello_.assign(header.begin(), header.end());
      PACELINE_RETURN_IF_ERROR(connects_ ? hear_answer(hello) : answer(hello));
      most_to_send_ = std::min<std::size_t>(options_.most_payload, hello.most_payload);
      break;
    }
    case FrameKind::kReady:
      state_ = State::kOpen;
      break;
    case FrameKind::kOffer:
      return hear_offer(head, header, data);
    case FrameKind::kAccept:
      return hear_accept(head.message);
    case FrameKind::kChunk:
      hear_chunk(head.message, data.size());
      break;
    case FrameKind::kHeartbeat:
      break;
  }
  return absl::OkStatus();
}

absl::Status Link::hear_offer(const FrameHead& head, std::span<const std::byte> header,
                              std::span<const std::byte> data) {
  if (head.message != next_in_) return absl::DataLossError("an offer came that is not due");
  if (head.bytes > options_.most_payload) {
    return absl::DataLossError(
        fmt::format("it offers a message of {} bytes; the most is {}", head.bytes, options_.most_payload));
  }
  if (++untaken_ > kMostOffers) return absl::DataLossError("it offers too many messages at once");
  ++next_in_;
  incoming_[head.message] = {
      .bytes = head.bytes, .small = {data.begin(), data.end()}, .memory = {}, .done = {}};
  events_.push_back([this, head, kept = std::vector<std::byte>(header.begin(), header.end())] {
    if (hear_) hear_({.id = head.message, .header = kept, .bytes = head.bytes});
  });
  return absl::OkStatus();
}

absl::Status Link::hear_accept(std::uint64_t id) {
  const auto found = outgoing_.find(id);
  if (found == outgoing_.end() || found->second.accepted) {
    return absl::DataLossError("an accept came that is not due");
  }
  found->second.accepted = true;
  --offered_;
  if (found->second.payload.size() > kInlineBytes) accepted_.push_back(id);
  finish_if_sent(id);
  return absl::OkStatus();
}

void Link::hear_chunk(std::uint64_t id, std::size_t bytes) {
  const auto found = incoming_.find(id);
  Incoming& message = found->second;
  message.landed += bytes;
  if (message.landed < message.bytes) return;
  meter_.landed(steady_clock::now(), std::ssize(message.memory));
  tell(std::move(message.done), absl::OkStatus());
  incoming_.erase(found);
}

void Link::posted(FrameKind kind, std::uint64_t id) {
  if (kind != FrameKind::kOffer && kind != FrameKind::kChunk) return;
  if (kind == FrameKind::kChunk) --chunks_in_flight_;
  --outgoing_.at(id).in_flight;
  finish_if_sent(id);
}

void Link::failed(const absl::Status& why) {
  // A refused peer has gone, or its time is over.
  if (state_ == State::kRefused) state_ = State::kEnded;
  if (why_.ok())
    why_ = absl::Status(why.code(), fmt::format("link to {}: {}", peer_, std::string(why.message())));
}

// ---- Messages

void Link::send(std::span<const std::byte> header, std::span<const std::byte> payload, Done sent) {
  PACELINE_CHECK(header.size() <= kMostHeaderBytes, "a header of {} bytes", header.size());
  if (!why_.ok()) return tell(std::move(sent), why_);
  waiting_.push_back({.header = {header.begin(), header.end()}, .payload = payload, .done = std::move(sent)});
  post_offers();
}

void Link::receive(std::uint64_t id, std::span<std::byte> memory, Done received) {
  const auto found = incoming_.find(id);
  PACELINE_CHECK(found != incoming_.end() && !found->second.taken, "message {} is not to be received", id);
  Incoming& message = found->second;
  PACELINE_CHECK(memory.size() == message.bytes, "{} bytes of memory for {}", memory.size(), message.bytes);
  --untaken_;
  const bool small = message.bytes <= kInlineBytes;
  if (small || !why_.ok()) {
    if (small) std::copy(message.small.begin(), message.small.end(), memory.begin());
    tell(std::move(received), small ? absl::OkStatus() : why_);
    incoming_.erase(found);
  } else {
    meter_.ready(steady_clock::now());
    message.taken = true;
    message.memory = memory;
    message.done = std::move(received);
  }
  if (why_.ok()) frames_.post(FrameKind::kAccept, id, 0);
}

void Link::post_offers() {
  while (state_ == State::kOpen && why_.ok() && !waiting_.empty() && offered_ < kMostOffers) {
    Outgoing next = std::move(waiting_.front());
    waiting_.pop_front();
    const std::size_t bytes = next.payload.size();
    if (bytes > most_to_send_) {
      tell(std::move(next.done), absl::InvalidArgumentError(fmt::format(
                                     "link to {}: a message of {} bytes; the two ends agreed on at most {}",
                                     peer_, bytes, most_to_send_)));
      continue;
    }
    const std::uint64_t id = next_out_++;
    ++offered_;
    next.in_flight = 1;
    const Outgoing& kept = outgoing_[id] = std::move(next);
    frames_.post(FrameKind::kOffer, id, bytes, kept.header,
                 bytes <= kInlineBytes ? kept.payload : std::span<const std::byte>());
  }
}

bool Link::chunk_is_due() const {
  return why_.ok() && !accepted_.empty() && chunks_in_flight_ < kMostChunks && frames_.takes_chunk();
}

// Posts one chunk of the message that was accepted first.
void Link::post_chunk() {
  const std::uint64_t id = accepted_.front();
  Outgoing& message = outgoing_.at(id);
  const std::size_t offset = message.offset;
  const std::size_t bytes = frames_.chunk_bytes(message.payload.size() - offset);
  const std::span<const std::byte> chunk = message.payload.subspan(offset, bytes);
  message.offset += bytes;
  ++message.in_flight;
  ++chunks_in_flight_;
  if (message.offset == message.payload.size()) accepted_.pop_front();
  frames_.post(FrameKind::kChunk, id, offset, {}, chunk);
}

// The memory belongs to the caller once no frame with a part of it is under way; a place among the offers is
// free once the peer has accepted.
void Link::finish_if_sent(std::uint64_t id) {
  const auto found = outgoing_.find(id);
  Outgoing& message = found->second;
  const bool small = message.payload.size() <= kInlineBytes;
  if (message.in_flight > 0 || (!small && message.offset < message.payload.size())) return;
  if (message.done) tell(std::exchange(message.done, {}), absl::OkStatus());
  if (message.accepted) outgoing_.erase(found);
}

void Link::tell(Done done, const absl::Status& status) {
  events_.push_back([done = std::move(done), status] { done(status); });
}

// ---- Progress

absl::Status Link::progress() {
  advance();
  // Only the events that are there now: handling them may bring more, and others want their turn.
  for (std::size_t left = events_.size(); left > 0; --left) {
    const std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    event();
  }
  if (state_ != State::kEnded) post_offers();
  // The end is reported last.
  return events_.empty() ? why_ : absl::OkStatus();
}

void Link::advance() {
  if (state_ == State::kEnded) return;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t drained = ::read(timer_.get(), &rings, sizeof rings);
  // A chunk is sent before the next one is sealed, and others get their turn.
  frames_.progress();
  for (int posted = 0; posted < kMostChunks && chunk_is_due(); ++posted) {
    post_chunk();
    frames_.progress();
  }
  keep_time();
  post_offers();
  if (!why_.ok() && state_ != State::kRefused) end();
}

void Link::keep_time() {
  const auto now = steady_clock::now();
  if (now - std::exchange(looked_, now) > kStoodStill) listens_since_ = now;
  if (state_ != State::kOpen) {
    const auto limit =
        frames_.connected() ? std::max(options_.connect_limit, options_.hello_limit) : options_.connect_limit;
    if (now - began_ < limit) return;
    return failed(absl::DeadlineExceededError(fmt::format("not connected within {} ms", limit.count())));
  }
  if (now - std::max(frames_.last_life(), listens_since_) > options_.silence) {
    failed(absl::UnavailableError(fmt::format("silent for {} ms", options_.silence.count())));
  }
  if (now - frames_.last_posted() >= kHeartbeat) frames_.post(FrameKind::kHeartbeat, 0, 0);
}

void Link::end() {
  frames_.stop();
  state_ = State::kEnded;
  for (auto& [id, message] : outgoing_) {
    if (message.done) tell(std::move(message.done), why_);
  }
  for (Outgoing& message : waiting_) tell(std::move(message.done), why_);
  for (auto& [id, message] : incoming_) {
    if (message.taken) tell(std::move(message.done), why_);
  }
  std::erase_if(incoming_, [](const auto& one) { return one.second.taken; });
  outgoing_.clear();
  waiting_.clear();
}

void Link::abandon() {
  if (state_ == State::kEnded) return;
  failed(absl::CancelledError("it was given up"));
  end();
  events_.clear();
}

bool Link::arm() {
  if (!events_.empty() || state_ == State::kEnded) return events_.empty();
  return !chunk_is_due() && frames_.arm();
}

void Link::wait(std::chrono::milliseconds limit) {
  if (!arm()) return;
  pollfd watched{.fd = fd(), .events = POLLIN, .revents = 0};
  ::poll(&watched, 1, static_cast<int>(limit.count()));
}

}  // namespace paceline::links
