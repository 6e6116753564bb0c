#include "paceline/parameters/exchange/exchange.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/transport/links/link_name.h"

namespace paceline::exchange {

namespace {

using std::chrono::steady_clock;

// A link has to be moved at least once a second.
constexpr int kLongestSleepMs = 250;

// A host that is up answers before its server does. The limit is for a network that swallows packets.
constexpr auto kConnectLimit = std::chrono::seconds(30);
// Hosts are told to start at about the same time, but the other one hears nobody before its shard is there,
// perhaps from a large checkpoint. If the other one is gone, the coordinator notices.
constexpr auto kHelloLimit = std::chrono::hours(24);
constexpr auto kGivenUpLimit = std::chrono::seconds(5);

// If this many blocks are under way to the own shard, blocks of later versions wait. Enough for the link to
// be busy while the next block is requested.
constexpr std::size_t kMostAhead = 3;

// The most blocks of a host under way at a time that nobody waits for.
constexpr std::size_t kMostUnwanted = 3;

std::uint64_t bit_of(int host) { return std::uint64_t{1} << host; }

std::string name_of(int host) { return fmt::format("host {}", host); }

bool is_gradient(Kind kind) { return kind == Kind::kSum || kind == Kind::kEarly; }

absl::Status about(int host, const absl::Status& status) {
  const bool swallowed = absl::IsDeadlineExceeded(status);
  return {status.code(),
          fmt::format("bulk data between hosts: host {}: {}{}", host, std::string(status.message()),
                      swallowed ? "; is there a firewall between the hosts?" : "")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exchange>> Exchange::listen(const std::string& host_address,
                                                           links::Fabric fabric,
                                                           std::function<void(const std::string&)> refused) {
  PACELINE_ASSIGN_OR_RETURN(auto network, links::Network::open(host_address, fabric));
  std::unique_ptr<Exchange> exchange(new Exchange(std::move(network)));
  PACELINE_ASSIGN_OR_RETURN(exchange->woken_, WakeEvent::create());
  links::LinkGate gate;
  gate.accept = [it = exchange.get()](const std::string& name) { return it->accept(name); };
  gate.on_link = [it = exchange.get()](std::unique_ptr<links::Link> link) {
    const std::optional<int> host = it->host_named(link->peer_name());
    PACELINE_CHECK(host.has_value(), "somebody of no name was let in");
    it->take_link(*host, std::move(link));
  };
  gate.on_refused = [refused = std::move(refused)](const absl::Status& why) {
    refused(std::string(why.message()));
  };
  PACELINE_ASSIGN_OR_RETURN(exchange->listener_, exchange->network_.listen(0, std::move(gate)));
  return exchange;
}

Exchange::~Exchange() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  post([] {});
  thread_.join();
  // Until a link is destroyed it may read and write memory that its neighbour's mirror and outlet have
  // mapped.
  std::vector<std::unique_ptr<links::Link>> links;
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.link != nullptr) links.push_back(std::move(neighbour.link));
  }
  links::Link::close(std::move(links));
}

absl::Status Exchange::start(ExchangeOptions options) {
  options_ = std::move(options);
  const std::size_t hosts = options_.peers.size();
  const auto own = static_cast<std::size_t>(options_.host);
  slices_.resize(hosts);
  early_.resize(hosts);
  for (const int shard : options_.kept_here) {
    const auto at = static_cast<std::size_t>(shard);
    const auto count = static_cast<int>(hosts);
    const std::int64_t floats = options_.part_floats[at];
    const auto spares = std::make_shared<SpareFloats>(floats, count);
    slices_[at] = std::make_unique<Slices>(count, floats, spares);
    if (options_.early) early_[at] = std::make_unique<Slices>(count, floats, spares);
  }
  {
    const std::lock_guard lock(mutex_);
    unsent_.assign(hosts, 0);
    sent_bytes_.assign(hosts, {});
    received_.assign(hosts, {});
  }
  const auto shards = std::count_if(options_.board_floats.begin(), options_.board_floats.end(),
                                    [](std::int64_t floats) { return floats > 0; });
  weights_ = SendTurns(shards == 1);
  neighbours_.resize(hosts);
  boards_.assign(hosts, options_.own_board);
  for (std::size_t host = 0; host < hosts; ++host) {
    if (host == own) continue;
    Neighbour& neighbour = neighbours_[host];
    if (options_.board_floats[host] > 0) {
      PACELINE_ASSIGN_OR_RETURN(auto board, memory::WeightWriter::create(options_.board_floats[host],
                                                                         options_.readers, options_.kept));
      boards_[host] = board.path();
      neighbour.mirror =
          std::make_unique<Mirror>(std::move(board), options_.board_floats[host], options_.moving[host]);
    }
    if (options_.board_floats[own] == 0) continue;
    // The highest slots: workers get theirs from the lowest upwards.
    const int slot = memory::WeightWriter::kSlots - 1 - static_cast<int>(host);
    PACELINE_ASSIGN_OR_RETURN(
        auto reader, memory::WeightReader::open(options_.own_board, options_.board_floats[own], slot));
    neighbour.outlet = std::make_unique<Outlet>(
        std::move(reader), options_.moving[own],
        [this, to = static_cast<int>(host)](Header header, std::span<const float> block,
                                            std::function<void()> sent) {
          header.shard = options_.host;
          send_weights(to, header, block, std::move(sent));
        });
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  return absl::OkStatus();
}

void Exchange::send_weights(int to, const Header& header, std::span<const float> block,
                            std::function<void()> sent) {
  {
    const std::lock_guard lock(mutex_);
    sent_bytes_[static_cast<std::size_t>(to)].weights += std::ssize(std::as_bytes(block));
  }
  const auto send = [=, this, sent = std::move(sent)](const SendTurns::Turn& turn) {
    const auto done = [=, this](const absl::Status& status) {
      if (!status.ok()) return;  // the end of the link tells why
      sent();
      weights_.sent(to, turn, steady_clock::now());
    };
    with_link(to, [=](links::Link& link) { link.send(write_header(header), std::as_bytes(block), done); });
  };
  weights_.add(to, header.version, send, steady_clock::now());
}

// ---- From the owner's thread ----

void Exchange::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  woken_.wake();
}

bool Exchange::keeps(int shard) const {
  const auto at = static_cast<std::size_t>(shard);
  return at < slices_.size() && slices_[at] != nullptr;
}

std::vector<Exchange::SentBytes> Exchange::sent_bytes() {
  const std::lock_guard lock(mutex_);
  return sent_bytes_;
}

std::vector<links::Received> Exchange::received() {
  const std::lock_guard lock(mutex_);
  return received_;
}

bool Exchange::ended() {
  const std::lock_guard lock(mutex_);
  return !failed_.ok();
}

void Exchange::give_up(const absl::Status& why) {
  post([=, this] {
    given_up_at_ = steady_clock::now();
    given_up_why_ = why;
  });
}

void Exchange::send(int host, int shard, GradientName gradient, std::int64_t begin,
                    std::span<const float> block) {
  const Header header{gradient.kind, gradient.version, begin, shard};
  {
    const std::lock_guard lock(mutex_);
    ++unsent_[static_cast<std::size_t>(host)];
    sent_bytes_[static_cast<std::size_t>(host)].gradients += std::ssize(std::as_bytes(block));
  }
  post([=, this] {
    with_link(host, [=, this](links::Link& link) {
      link.send(write_header(header), std::as_bytes(block), [this, host](const absl::Status& status) {
        if (!status.ok()) return;  // the end of the link tells why
        {
          const std::lock_guard lock(mutex_);
          --unsent_[static_cast<std::size_t>(host)];
        }
        sent_.notify_all();
      });
    });
  });
}

absl::Status Exchange::flush(int host) {
  std::unique_lock lock(mutex_);
  const auto at = static_cast<std::size_t>(host);
  sent_.wait(lock, [&] { return unsent_[at] == 0 || !failed_.ok(); });
  return unsent_[at] == 0 ? absl::OkStatus() : failed_;
}

void Exchange::release(int shard, int host, GradientName gradient) {
  slices(shard, gradient.kind).release(host, gradient.version);
  post([this] { try_all_deferred(); });
}

void Exchange::skip(int shard, int host, EarlyNumber number) {
  slices(shard, Kind::kEarly).skip(host, Version(number.value()));
  post([this] { try_all_deferred(); });
}

absl::StatusOr<double> Exchange::sum_squares(Version version, double own) {
  for (int host = 0; host < static_cast<int>(options_.peers.size()); ++host) {
    if (host == options_.host) continue;
    post([=, this] {
      with_link(host, [=](links::Link& link) {
        link.send(write_header({Kind::kSquares, version, 0, 0, own}), {}, [](const absl::Status&) {});
      });
    });
  }
  std::unique_lock lock(mutex_);
  squares_.erase(squares_.begin(), squares_.lower_bound(version));
  squares_[version][options_.host] = own;
  const std::map<int, double>& here = squares_[version];
  squares_here_.wait(lock, [&] { return here.size() == options_.peers.size() || !failed_.ok(); });
  if (here.size() < options_.peers.size()) return failed_;
  double sum = 0;
  for (const auto& [host, squares] : here) sum += squares;
  return sum;
}

void Exchange::want(int host, Version version) {
  if (host == options_.host) return;
  post([=, this] {
    const auto& outlet = neighbours_[static_cast<std::size_t>(host)].outlet;
    if (outlet != nullptr) outlet->want(version);
  });
}

void Exchange::published(Version version) {
  post([=, this] {
    for (Neighbour& neighbour : neighbours_) {
      if (neighbour.outlet != nullptr) neighbour.outlet->published(version);
    }
  });
}

void Exchange::making(Version version, std::vector<int> hosts) {
  post([=, this] {
    way_ = 0;
    for (const int host : hosts) {
      const auto& outlet = neighbours_[static_cast<std::size_t>(host)].outlet;
      // the host gets the version once it is published
      if (outlet == nullptr || !outlet->expect(version)) continue;
      outlet->sent(version);
      way_ |= bit_of(host);
    }
  });
}

void Exchange::in_turn(Version version) {
  post([=, this] {
    turn_ = version;
    try_all_deferred();
  });
}

bool Exchange::has_turn(const Header& sum) const {
  if (!turn_ || sum.shard != options_.host || sum.version <= *turn_) return true;
  const auto before = [&](const Deferred& one) {
    return one.header.kind == Kind::kSum && one.header.shard == sum.shard && one.header.version < sum.version;
  };
  return coming_ < kMostAhead && std::none_of(neighbours_.begin(), neighbours_.end(), [&](const auto& one) {
           return std::any_of(one.deferred.begin(), one.deferred.end(), before);
         });
}

void Exchange::made(Version version, std::int64_t begin, std::span<const float> block) {
  auto copy = std::make_shared<const std::vector<float>>(block.begin(), block.end());
  post([=, this, copy = std::move(copy)] {
    Header header{.kind = Kind::kWeights, .version = version, .begin = begin, .shard = options_.host};
    if (options_.pass_on) {
      header.pass_on = way_;
      return pass_on(header, copy);
    }
    for (std::uint64_t left = way_; left != 0; left &= left - 1)
      send_weights(std::countr_zero(left), header, *copy, [copy] {});
  });
}

// Sends from memory of its own: the board's may hold a later version before this one has gone.
void Exchange::pass_on(Header header, std::shared_ptr<const std::vector<float>> block) {
  if (header.pass_on == 0) return;
  const int next = std::countr_zero(header.pass_on);
  header.pass_on &= header.pass_on - 1;
  const std::span<const float> floats = *block;
  send_weights(next, header, floats, [block = std::move(block)] {});
}

void Exchange::keep(int host, Version version) {
  post([=, this] { neighbours_[static_cast<std::size_t>(host)].outlet->keep(version); });
}

void Exchange::drop(Version version) {
  post([=, this] {
    for (Neighbour& neighbour : neighbours_) {
      if (neighbour.mirror != nullptr) neighbour.mirror->drop(version);
    }
  });
}

void Exchange::release_reader(int slot) {
  post([=, this] {
    for (Neighbour& neighbour : neighbours_) {
      if (neighbour.mirror != nullptr) neighbour.mirror->release_reader(slot);
    }
  });
}

// ---- The exchange's thread ----

void Exchange::run(const std::stop_token& stop) {
  connect_to_lower();
  while (!stop.stop_requested()) {
    const bool busy = progress();
    if (ended_) tell_failed();
    if (!busy) sleep();
  }
}

// Connects to the hosts with lower numbers, so that one of each two connects.
void Exchange::connect_to_lower() {
  for (int host = 0; host < options_.host; ++host) {
    const Peer& peer = options_.peers[static_cast<std::size_t>(host)];
    links::LinkOptions options = options_to(host);
    options.connect_limit = kConnectLimit;
    options.hello_limit = kHelloLimit;
    neighbours_[static_cast<std::size_t>(host)].dialer = std::make_unique<links::LinkDialer>(
        network_, peer.address, links::said_name(name_of(options_.host), peer.keys.send, sealed()), options);
  }
}

void Exchange::dial(int host) {
  auto& dialer = neighbours_[static_cast<std::size_t>(host)].dialer;
  auto connected = dialer == nullptr ? std::nullopt : dialer->progress();
  if (!connected) return;
  dialer.reset();
  if (!connected->ok()) return fail(about(host, connected->status()));
  take_link(host, **std::move(connected));
}

// The host of that name, among those that connect to this one.
std::optional<int> Exchange::host_named(const std::string& said) const {
  for (int host = options_.host + 1; host < static_cast<int>(options_.peers.size()); ++host) {
    const links::LinkKeys& keys = options_.peers[static_cast<std::size_t>(host)].keys;
    if (links::same_name(said, links::said_name(name_of(host), keys.receive, sealed()))) return host;
  }
  return std::nullopt;
}

absl::StatusOr<links::LinkOptions> Exchange::accept(const std::string& said) const {
  const std::optional<int> host = host_named(said);
  if (!host) return absl::PermissionDeniedError("no host of this job");
  const auto at = static_cast<std::size_t>(*host);
  if (neighbours_[at].link != nullptr)
    return absl::AlreadyExistsError(fmt::format("{} is connected", name_of(*host)));
  return options_to(*host);
}

links::LinkOptions Exchange::options_to(int host) const {
  links::LinkOptions options;
  if (sealed()) options.keys = options_.peers[static_cast<std::size_t>(host)].keys;
  return options;
}

void Exchange::take_link(int host, std::unique_ptr<links::Link> link) {
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(host)];
  if (neighbour.link != nullptr) return;  // the first of two links with that name counts
  link->on_message([this, host](const links::Link::Message& message) { heard(host, message); });
  neighbour.link = std::move(link);
  for (const auto& use : std::exchange(neighbour.waiting_for_link, {})) use(*neighbour.link);
}

void Exchange::count_received(int host) {
  const auto at = static_cast<std::size_t>(host);
  const links::Received& so_far = neighbours_[at].link->received();
  if (so_far == received_[at]) return;  // only this thread writes it
  const std::lock_guard lock(mutex_);
  received_[at] = so_far;
}

void Exchange::with_link(int host, std::function<void(links::Link&)> use) {
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(host)];
  if (neighbour.link == nullptr) return neighbour.waiting_for_link.push_back(std::move(use));
  use(*neighbour.link);
}

// True if there may be more to do.
bool Exchange::progress() {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
  if (ended_) return !tasks.empty();
  if (given_up_at_ && steady_clock::now() - *given_up_at_ > kGivenUpLimit) {
    fail(given_up_why_);
    return true;
  }
  weights_.go_on(steady_clock::now());
  listener_->progress();
  for (std::size_t host = 0; host < neighbours_.size() && !ended_; ++host) {
    dial(static_cast<int>(host));
    if (neighbours_[host].link == nullptr) continue;
    const absl::Status status = neighbours_[host].link->progress();
    if (!status.ok()) fail(about(static_cast<int>(host), status));
    count_received(static_cast<int>(host));
  }
  if (ended_) return true;
  bool idle = tasks.empty() && listener_->arm();
  for (const Neighbour& neighbour : neighbours_) {
    if (neighbour.link != nullptr) idle = neighbour.link->arm() && idle;
    if (neighbour.dialer != nullptr) idle = neighbour.dialer->arm() && idle;
  }
  return !idle;
}

void Exchange::sleep() {
  std::vector<pollfd> watched{{woken_.fd(), POLLIN, 0}};
  if (!ended_) {
    watched.push_back({listener_->fd(), POLLIN, 0});
    for (const Neighbour& neighbour : neighbours_) {
      if (neighbour.link != nullptr) watched.push_back({neighbour.link->fd(), POLLIN, 0});
      if (neighbour.dialer != nullptr) watched.push_back({neighbour.dialer->fd(), POLLIN, 0});
    }
  }
  poll(watched.data(), watched.size(), kLongestSleepMs);
  woken_.clear();
}

void Exchange::heard(int host, const links::Link::Message& message) {
  const auto header = read_header(message.header);
  const absl::Status status = header.ok() ? check(host, *header, message.bytes) : header.status();
  if (!status.ok()) return fail(about(host, status));
  if (header->kind == Kind::kKeptHere) {
    neighbours_[static_cast<std::size_t>(host)].link->receive(message.id, {}, [](const absl::Status&) {});
    return options_.kept_there(header->version);
  }
  if (header->kind == Kind::kSquares) {
    neighbours_[static_cast<std::size_t>(host)].link->receive(message.id, {}, [](const absl::Status&) {});
    if (const absl::Status heard = heard_squares(host, *header); !heard.ok()) fail(about(host, heard));
    return;
  }
  auto& deferred = neighbours_[static_cast<std::size_t>(host)].deferred;
  deferred.push_back({host, *header, message.bytes, message.id});
  try_deferred(host);
}

// A host sends its norm once for each commit, and waits for all norms of that commit before it sends the
// next.
absl::Status Exchange::heard_squares(int host, const Header& header) {
  {
    const std::lock_guard lock(mutex_);
    const auto of_host = std::count_if(squares_.begin(), squares_.end(),
                                       [&](const auto& one) { return one.second.contains(host); });
    if (of_host > 2 || !squares_[header.version].emplace(host, header.squares).second)
      return absl::DataLossError(fmt::format("a norm of version {} that nobody waits for", header.version));
  }
  squares_here_.notify_all();
  return absl::OkStatus();
}

// OK if a host may send this header, with that many bytes.
absl::Status Exchange::check(int host, const Header& header, std::size_t bytes) const {
  if (header.kind == Kind::kWeights || header.kind == Kind::kKept) return check_weights(host, header, bytes);
  if (!is_gradient(header.kind)) return check_payload(header, bytes, 0);
  if (!keeps(header.shard))
    return absl::DataLossError(fmt::format("gradients for shard {}, which is not here", header.shard));
  if (header.kind == Kind::kEarly && !options_.early)
    return absl::DataLossError("an early gradient in a job without them");
  if (header.kind == Kind::kEarly && header.version == Version(0))
    return absl::DataLossError("an early gradient without a number");
  return check_payload(header, bytes, options_.part_floats[static_cast<std::size_t>(header.shard)]);
}

absl::Status Exchange::check_weights(int host, const Header& header, std::size_t bytes) const {
  const auto shard = static_cast<std::size_t>(header.shard);
  const bool passed_on = options_.pass_on && header.kind == Kind::kWeights;
  const bool has_it = header.shard == host || (passed_on && header.shard != options_.host);
  if (shard >= neighbours_.size() || !has_it)
    return absl::DataLossError(fmt::format("weights of shard {}, which is not there", header.shard));
  // The block goes on to hosts that exist, and that do not have it yet.
  const std::uint64_t nobody = bit_of(options_.host) | bit_of(host) | bit_of(header.shard);
  const bool beyond = (header.pass_on >> 1 >> (neighbours_.size() - 1)) != 0;
  if (header.pass_on != 0 && (!passed_on || beyond || (header.pass_on & nobody) != 0))
    return absl::DataLossError(fmt::format("weights to be passed on to hosts {:#x}", header.pass_on));
  return check_payload(header, bytes, options_.board_floats[shard]);
}

// Handles the blocks of each kind and shard in the order in which they came: a sum that has to wait holds back neither
// weights nor early gradients nor other shards' sums, as long as its link has room for them (Link::receive). Weights
// of a shard that have to wait hold back no other shard's: two hosts might each wait for what the other holds back.
void Exchange::try_deferred(int host) {
  auto& deferred = neighbours_[static_cast<std::size_t>(host)].deferred;
  const std::size_t shards = neighbours_.size();
  std::vector<char> sums_wait(shards, 0), early_wait(shards, 0), weights_wait(shards, 0);
  const auto waits_of = [&](const Header& header) -> char& {
    auto& wait = !is_gradient(header.kind)   ? weights_wait
                 : header.kind == Kind::kSum ? sums_wait
                                             : early_wait;
    return wait[static_cast<std::size_t>(header.shard)];
  };
  std::deque<Deferred> later;
  for (const Deferred& one : std::exchange(deferred, {})) {
    char& waits = waits_of(one.header);
    if (waits == 0) {
      const auto received = receive(one);
      if (!received.ok()) return fail(about(host, received.status()));
      waits = *received ? 0 : 1;
    }
    if (waits != 0) later.push_back(one);
  }
  // Nothing came during the loop: arrivals are told from progress() alone.
  deferred = std::move(later);
  const auto fills = [this](const Deferred& one) {
    return !is_gradient(one.header.kind) && mirror_of(one.header).is_filling();
  };
  if (std::any_of(deferred.begin(), deferred.end(), fills)) post([this, host] { try_deferred(host); });
}

void Exchange::try_all_deferred() {
  for (std::size_t host = 0; host < neighbours_.size(); ++host) try_deferred(static_cast<int>(host));
}

absl::StatusOr<bool> Exchange::receive(const Deferred& what) {
  links::Link& link = *neighbours_[static_cast<std::size_t>(what.host)].link;
  const Header& header = what.header;
  // A block that came over two ways may come late. Other hosts may still need it.
  if (options_.pass_on && header.kind == Kind::kWeights && mirror_of(header).is_over(header)) {
    const auto late = std::make_shared<std::vector<float>>(what.bytes / sizeof(float));
    link.receive(what.message, std::as_writable_bytes(std::span(*late)),
                 [this, late, header](const absl::Status& status) {
                   if (status.ok()) pass_on(header, late);
                 });
    return true;
  }
  const bool sum = header.kind == Kind::kSum;
  if (sum && !has_turn(header)) return false;
  PACELINE_ASSIGN_OR_RETURN(const auto memory, room(what.host, header));
  if (!memory) return receive_unwanted(what);
  if (sum && header.shard == options_.host) ++coming_;
  link.receive(what.message, std::as_writable_bytes(*memory),
               [this, host = what.host, header, memory = *memory](const absl::Status& status) {
                 if (!status.ok()) return;
                 if (header.kind == Kind::kWeights && header.pass_on != 0)
                   pass_on(header, std::make_shared<const std::vector<float>>(memory.begin(), memory.end()));
                 arrived(host, header);
               });
  return true;
}

// False if this is no skipped early gradient, or too many are under way. Each has memory of its own, because
// it is decrypted in place.
bool Exchange::receive_unwanted(const Deferred& what) {
  const Header& header = what.header;
  Neighbour& from = neighbours_[static_cast<std::size_t>(what.host)];
  if (header.kind != Kind::kEarly || !slices(header.shard, header.kind).skipped(what.host, header.version) ||
      from.unwanted == kMostUnwanted)
    return false;
  ++from.unwanted;
  const auto block = std::make_shared<std::vector<float>>(what.bytes / sizeof(float));
  from.link->receive(what.message, std::as_writable_bytes(std::span(*block)),
                     [this, block, host = what.host](const absl::Status& status) {
                       if (!status.ok()) return;
                       if (neighbours_[static_cast<std::size_t>(host)].unwanted-- == kMostUnwanted)
                         post([this, host] { try_deferred(host); });
                     });
  return true;
}

absl::StatusOr<std::optional<std::span<float>>> Exchange::room(int host, const Header& header) {
  if (is_gradient(header.kind))
    return slices(header.shard, header.kind).room(host, header.version, header.begin);
  // The first version comes from the shard itself, and has more blocks.
  if (header.shard != host && mirror_of(header).is_empty()) return std::nullopt;
  return mirror_of(header).room(header);
}

void Exchange::arrived(int host, const Header& header) {
  if (is_gradient(header.kind)) {
    bool room = slices(header.shard, header.kind).arrived(host, header.version, header.begin);
    if (header.kind == Kind::kSum && header.shard == options_.host) room |= coming_-- == kMostAhead;
    if (room) post([this] { try_all_deferred(); });
    return;
  }
  const auto whole = mirror_of(header).arrived();
  if (!whole.ok()) return fail(about(host, whole.status()));
  if (*whole && (*whole)->kind == Kind::kKept) {
    with_link(host, [version = (*whole)->version](links::Link& link) {
      link.send(write_header({Kind::kKeptHere, version, 0}), {}, [](const absl::Status&) {});
    });
  }
  if (*whole) post([this] { try_all_deferred(); });
}

void Exchange::fail(const absl::Status& why) {
  if (std::exchange(ended_, true)) return;
  ended_why_ = why;
}

// When a waiting thread is told, the links no longer touch its memory.
void Exchange::tell_failed() {
  if (std::exchange(told_, true)) return;
  for (Neighbour& neighbour : neighbours_) {
    neighbour.dialer.reset();
    if (neighbour.link != nullptr) neighbour.link->abandon();
  }
  {
    const std::lock_guard lock(mutex_);
    failed_ = ended_why_;
  }
  options_.failed(ended_why_);
  sent_.notify_all();
  squares_here_.notify_all();
  for (const auto* kind : {&slices_, &early_}) {
    for (const auto& slices : *kind) {
      if (slices != nullptr) slices->fail(ended_why_);
    }
  }
}

}  // namespace paceline::exchange
