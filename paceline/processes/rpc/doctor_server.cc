#include "paceline/processes/rpc/doctor_server.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/event_loop.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/peer_stream.h"
#include "paceline/processes/rpc/port.h"

namespace paceline::rpc {

namespace {

using Stream = PeerStream<wire::DoctorAnswer, wire::DoctorOrder>;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{1000};
constexpr std::chrono::seconds kDisconnectLimit{5};

struct ExaminedHost {
  std::optional<wire::DoctorHello> hello;
  Stream::Pointer stream;  // null: the host has not come, or has gone
  std::deque<wire::DoctorAnswer> answers;
};

// The hosts that are examined. gRPC's threads bring their answers, and one thread waits for them.
class ExaminedHosts final : public Stream::Listener {
 public:
  explicit ExaminedHosts(int hosts) : all_(static_cast<std::size_t>(hosts)) {}

  int count() const { return static_cast<int>(all_.size()); }

  void received(const Stream::Pointer& stream, wire::DoctorAnswer answer) override {
    const std::lock_guard lock(mutex_);
    if (answer.has_hello()) {
      take_hello(stream, answer.hello());
    } else if (ExaminedHost* host = examined_host(stream)) {
      host->answers.push_back(std::move(answer));
    }
    changed_.notify_all();
  }

  // Tells the hosts that are here, and each that comes later.
  void send_disconnect(const wire::Disconnect& disconnect) {
    const std::lock_guard lock(mutex_);
    over_ = disconnect;
    for (const ExaminedHost& host : all_) {
      if (host.stream != nullptr) host.stream->send_disconnect(disconnect);
    }
  }

  void closed(const Stream::Pointer& stream) override {
    const std::lock_guard lock(mutex_);
    if (ExaminedHost* host = examined_host(stream)) host->stream = nullptr;
    changed_.notify_all();
  }

  // Waits until `done` or for `limit`; calls `done` with the lock held.
  template <class Done>
  bool wait(std::chrono::milliseconds limit, const Done& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return done(all_); });
  }

 private:
  // Requires: the lock.
  ExaminedHost* examined_host(const Stream::Pointer& stream) {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&](const ExaminedHost& host) { return host.stream == stream; });
    return found == all_.end() ? nullptr : &*found;
  }

  void take_hello(const Stream::Pointer& stream, const wire::DoctorHello& hello) {
    if (over_) return stream->send_disconnect(*over_);
    const auto hosts = static_cast<std::int32_t>(all_.size());
    if (hello.hosts() != hosts || hello.host() < 0 || hello.host() >= hosts) {
      return stream->send_disconnect(
          wire::refused(fmt::format("host {} of {} came, and host 0 examines {}: start all with the same "
                                    "number of hosts",
                                    hello.host(), hello.hosts(), hosts)));
    }
    ExaminedHost& host = all_[static_cast<std::size_t>(hello.host())];
    if (host.hello)
      return stream->send_disconnect(wire::refused(fmt::format("host {} is here already", hello.host())));
    host.hello = hello;
    host.stream = stream;
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<ExaminedHost> all_;
  std::optional<wire::Disconnect> over_;  // the last word, once it is said
};

class Service final : public wire::Doctor::CallbackService {
 public:
  Service(EventLoop& loop, ExaminedHosts& hosts, Access access,
          std::function<void(const std::string&)> notice)
      : loop_(loop),
        hosts_(hosts),
        access_(std::move(access)),
        notice_(std::move(notice)),
        places_(2 * hosts.count()) {}

  grpc::ServerBidiReactor<wire::DoctorAnswer, wire::DoctorOrder>* Examine(
      grpc::CallbackServerContext* context) override {
    const grpc::Status admitted = admit(*context, access_, {security::Role::kOperator});
    if (admitted.ok())
      return start_stream<Stream, wire::DoctorAnswer, wire::DoctorOrder>(loop_, hosts_, *context, places_);
    notice_(fmt::format("refused a process at {}: {}", context->peer(), admitted.error_message()));
    return new RefusedStream<wire::DoctorAnswer, wire::DoctorOrder>(admitted);
  }

 private:
  EventLoop& loop_;
  ExaminedHosts& hosts_;
  const Access access_;
  const std::function<void(const std::string&)> notice_;
  StreamPlaces places_;
};

}  // namespace

struct DoctorServer::State {
  State(int count, const Access& access, std::function<void(const std::string&)> notice)
      : hosts(count), service(loop, hosts, access, std::move(notice)) {}
  ~State() {
    port.reset();
    loop.post([this] { loop.stop(); });
  }

  EventLoop loop;
  ExaminedHosts hosts;
  Service service;
  std::unique_ptr<Port> port;
  std::int64_t asked = 0;
  std::jthread thread;  // runs the loop
};

DoctorServer::DoctorServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
DoctorServer::~DoctorServer() = default;

absl::StatusOr<std::unique_ptr<DoctorServer>> DoctorServer::open(
    const std::string& address, const Access& access, int hosts,
    std::function<void(const std::string&)> notice) {
  auto state = std::make_unique<State>(hosts, access, notice);
  PACELINE_ASSIGN_OR_RETURN(state->port, Port::open(address, access, state->service, notice));
  state->thread = std::jthread([loop = &state->loop] { loop->run(kTick, [] {}); });
  return std::unique_ptr<DoctorServer>(new DoctorServer(std::move(state)));
}

const std::string& DoctorServer::address() const { return state_->port->address(); }

void DoctorServer::wait_for_all(std::chrono::milliseconds limit) {
  state_->hosts.wait(limit, [](const std::vector<ExaminedHost>& all) {
    return std::all_of(all.begin(), all.end(),
                       [](const ExaminedHost& host) { return host.hello.has_value(); });
  });
}

std::optional<wire::DoctorHello> DoctorServer::hello(int host) const {
  std::optional<wire::DoctorHello> said;
  state_->hosts.wait({}, [&](const std::vector<ExaminedHost>& all) {
    said = all[static_cast<std::size_t>(host)].hello;
    return true;
  });
  return said;
}

absl::StatusOr<wire::DoctorAnswer> DoctorServer::ask(int host, wire::DoctorOrder order,
                                                     std::chrono::milliseconds limit) {
  const std::int64_t number = ++state_->asked;
  order.set_number(number);
  const auto at = static_cast<std::size_t>(host);
  std::optional<wire::DoctorAnswer> answer;
  bool here = true;
  bool told = false;
  state_->hosts.wait(limit, [&](std::vector<ExaminedHost>& all) {
    ExaminedHost& asked = all[at];
    here = asked.stream != nullptr;
    if (here && !std::exchange(told, true)) asked.stream->send(order);
    // Answers to earlier orders are too late.
    while (!asked.answers.empty() && !answer) {
      if (asked.answers.front().to() == number) answer = std::move(asked.answers.front());
      asked.answers.pop_front();
    }
    return answer || !here;
  });
  if (answer) return *std::move(answer);
  if (!here) return absl::UnavailableError("its connection to host 0 ended");
  return absl::DeadlineExceededError(fmt::format(
      "it said nothing for {} s", std::chrono::duration_cast<std::chrono::seconds>(limit).count()));
}

void DoctorServer::send_disconnect(bool refused, const std::string& why) {
  wire::Disconnect disconnect;
  disconnect.set_refused(refused);
  disconnect.set_why(why);
  state_->hosts.send_disconnect(disconnect);
  state_->hosts.wait(kDisconnectLimit, [](const std::vector<ExaminedHost>& all) {
    return std::all_of(all.begin(), all.end(),
                       [](const ExaminedHost& host) { return host.stream == nullptr; });
  });
}

}  // namespace paceline::rpc
