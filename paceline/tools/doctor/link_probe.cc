#include "paceline/tools/doctor/link_probe.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/tools/doctor/probe_messages.h"
#include "paceline/tools/doctor/transfer_speed.h"

namespace paceline::doctor {

namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr char kName[] = "probe";
constexpr std::size_t kBlock = 1 << 20;
constexpr std::size_t kWindow = 8;  // messages on their way
constexpr int kRounds = 100;
constexpr auto kRoundsLimit = 500ms;
constexpr auto kLook = 100ms;

// Either end of a probe: sends blocks and messages, and takes those of the other end.
class Talk {
 public:
  Talk(links::Link& link, steady_clock::time_point deadline)
      : link_(link), deadline_(deadline), block_(kBlock) {
    link_.on_message([this](const links::Link::Message& message) { hear(message); });
  }

  // Moves data until `done`. Errors: the link's; DeadlineExceeded.
  template <class Done>
  absl::Status drive(const Done& done) {
    while (true) {
      PACELINE_RETURN_IF_ERROR(link_.progress());
      PACELINE_RETURN_IF_ERROR(trouble_);
      if (done()) return absl::OkStatus();
      if (steady_clock::now() > deadline_)
        return absl::DeadlineExceededError("the other host was reached, but did not answer in time");
      link_.wait(kLook);
    }
  }

  void say(ProbeKind kind, std::int64_t number) {
    ++unsent_;
    link_.send(write_probe({kind, number}), {}, [this](const absl::Status&) {
      --unsent_;
      take_some();
    });
  }
  bool all_sent() const { return unsent_ == 0; }

  // Begins to send a transfer's blocks, a window at a time; drive() goes on with it.
  void begin_transfer(std::int64_t bytes) {
    transfer_ = left_ = bytes;
    send_blocks();
  }

  int pongs() const { return pings_; }
  std::optional<std::int64_t> take_got() { return std::exchange(got_, std::nullopt); }
  std::optional<std::int64_t> take_received() { return std::exchange(received_, std::nullopt); }

  // Makes this end answer all questions, instead of waiting for answers.
  void answer_all() { answers_ = true; }
  bool ended() const { return ended_; }

 private:
  struct Offered {
    std::uint64_t id;
    std::size_t bytes;
    ProbeHeader header;
  };

  void hear(const links::Link::Message& message) {
    const auto header = read_probe(message.header);
    const bool sound = header && message.bytes <= kBlock && header->number >= 0 &&
                       header->number <= kMostTransfer &&
                       (message.bytes > 0) == (header->kind == ProbeKind::kData);
    if (!sound) {
      trouble_ = absl::DataLossError("the other host says what makes no sense");
      return;
    }
    offered_.push_back({message.id, message.bytes, *header});
    take_some();
  }

  // Takes a window at a time, and no more than was answered: an end that only offers, or only asks, fills no
  // memory here.
  void take_some() {
    for (; !offered_.empty() && incoming_.size() < kWindow && unsent_ < kWindow; offered_.pop_front())
      take(offered_.front());
  }

  // Sealed payloads are decrypted in place, so each message has memory of its own.
  void take(const Offered& message) {
    auto& memory = incoming_[message.id];
    memory.resize(message.bytes);
    link_.receive(message.id, memory, [this, message](const absl::Status& status) {
      incoming_.erase(message.id);
      if (status.ok()) came(message.header, static_cast<std::int64_t>(message.bytes));
      take_some();
    });
  }

  void came(const ProbeHeader& header, std::int64_t bytes) {
    switch (header.kind) {
      case ProbeKind::kPing:
        ++pings_;
        if (answers_) say(ProbeKind::kPing, header.number);
        return;
      case ProbeKind::kData:
        landed_ += bytes;
        if (landed_ < header.number) return;
        landed_ = 0;
        received_ = header.number;
        if (answers_) say(ProbeKind::kGot, header.number);
        return;
      case ProbeKind::kGot:
        got_ = header.number;
        return;
      case ProbeKind::kGive:
        if (answers_ && left_ == 0) begin_transfer(header.number);
        return;
      case ProbeKind::kEnd:
        ended_ = true;
        return;
    }
  }

  void send_blocks() {
    for (; left_ > 0 && on_their_way_ < kWindow; ++on_their_way_) {
      const auto bytes = std::min(left_, static_cast<std::int64_t>(kBlock));
      left_ -= bytes;
      link_.send(write_probe({ProbeKind::kData, transfer_}),
                 std::span(block_).first(static_cast<std::size_t>(bytes)),
                 [this](const absl::Status& status) {
                   --on_their_way_;
                   if (status.ok()) send_blocks();
                 });
    }
  }

  links::Link& link_;
  const steady_clock::time_point deadline_;
  std::vector<std::byte> block_;
  std::deque<Offered> offered_;
  std::map<std::uint64_t, std::vector<std::byte>> incoming_;
  absl::Status trouble_;
  bool answers_ = false;
  bool ended_ = false;
  std::size_t unsent_ = 0;
  int pings_ = 0;
  std::size_t on_their_way_ = 0;
  std::int64_t transfer_ = 0;
  std::int64_t left_ = 0;    // to be sent
  std::int64_t landed_ = 0;  // received bytes of a transfer under way
  std::optional<std::int64_t> got_;
  std::optional<std::int64_t> received_;
};

absl::StatusOr<double> round_trip_us(Talk& talk) {
  std::vector<double> times_us;
  const auto until = steady_clock::now() + kRoundsLimit;
  for (int round = 0; round < kRounds && (round == 0 || steady_clock::now() < until); ++round) {
    const auto began = steady_clock::now();
    talk.say(ProbeKind::kPing, round);
    PACELINE_RETURN_IF_ERROR(talk.drive([&] { return talk.pongs() > round; }));
    times_us.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - began).count());
  }
  const auto middle = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 2);
  std::nth_element(times_us.begin(), middle, times_us.end());
  return *middle;
}

template <class Transfer>
absl::StatusOr<double> mb_s(const Transfer& transfer) {
  return transfer_mb_s([&](std::int64_t bytes) -> absl::StatusOr<double> {
    const auto began = steady_clock::now();
    PACELINE_RETURN_IF_ERROR(transfer(bytes));
    return std::chrono::duration<double>(steady_clock::now() - began).count();
  });
}

absl::StatusOr<LinkFigures> measure(Talk& talk) {
  LinkFigures figures;
  PACELINE_ASSIGN_OR_RETURN(figures.round_trip_us, round_trip_us(talk));
  PACELINE_ASSIGN_OR_RETURN(figures.there_mb_s, mb_s([&](std::int64_t bytes) {
                              talk.begin_transfer(bytes);
                              return talk.drive([&] { return talk.take_got() == bytes; });
                            }));
  PACELINE_ASSIGN_OR_RETURN(figures.back_mb_s, mb_s([&](std::int64_t bytes) {
                              talk.say(ProbeKind::kGive, bytes);
                              return talk.drive([&] { return talk.take_received() == bytes; });
                            }));
  return figures;
}

links::LinkOptions options_of(const ProbeEnd& end) {
  links::LinkOptions options;
  options.keys = end.keys;
  options.most_payload = kBlock;
  return options;
}

}  // namespace

struct ProbeListener::State {
  explicit State(links::Network over) : network(std::move(over)) {}

  links::Network network;  // outlives what it made
  std::unique_ptr<links::LinkListener> listener;
  std::unique_ptr<links::Link> link;
};

ProbeListener::ProbeListener(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProbeListener::~ProbeListener() = default;

absl::StatusOr<std::unique_ptr<ProbeListener>> ProbeListener::open(const ProbeEnd& own) {
  PACELINE_ASSIGN_OR_RETURN(auto network, links::Network::open(own.address, own.fabric));
  auto state = std::make_unique<State>(std::move(network));
  links::LinkGate gate;
  gate.accept = [options = options_of(own)](const std::string& name) -> absl::StatusOr<links::LinkOptions> {
    if (name != kName) return absl::PermissionDeniedError("only a probe is expected here");
    return options;
  };
  gate.on_link = [it = state.get()](std::unique_ptr<links::Link> link) {
    if (it->link == nullptr) it->link = std::move(link);
  };
  PACELINE_ASSIGN_OR_RETURN(state->listener, state->network.listen(0, std::move(gate)));
  return std::unique_ptr<ProbeListener>(new ProbeListener(std::move(state)));
}

const std::string& ProbeListener::address() const { return state_->listener->address(); }

void ProbeListener::serve(const std::function<bool()>& enough, std::chrono::milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  while (state_->link == nullptr && steady_clock::now() < deadline && !enough()) {
    state_->listener->progress();
    if (state_->link == nullptr) state_->listener->wait(kLook);
  }
  if (state_->link == nullptr) return;
  {
    Talk talk(*state_->link, deadline);
    talk.answer_all();
    // The other end reports how it ended.
    [[maybe_unused]] const absl::Status end = talk.drive([&] { return talk.ended() || enough(); });
    state_->link->abandon();
  }
  state_->link.reset();
}

absl::StatusOr<LinkFigures> probe(const ProbeEnd& own, const std::string& address,
                                  std::chrono::milliseconds limit) {
  PACELINE_ASSIGN_OR_RETURN(const auto network, links::Network::open(own.address, own.fabric));
  PACELINE_ASSIGN_OR_RETURN(const auto link, network.connect(address, kName, options_of(own)));
  Talk talk(*link, steady_clock::now() + limit);
  auto figures = measure(talk);
  if (figures.ok()) {
    talk.say(ProbeKind::kEnd, 0);
    // The last message has to leave before the link is closed.
    [[maybe_unused]] const absl::Status sent = talk.drive([&] { return talk.all_sent(); });
  } else {
    link->abandon();  // before the memory that it may write to goes
  }
  return figures;
}

}  // namespace paceline::doctor
