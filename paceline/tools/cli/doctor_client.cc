#include "paceline/tools/cli/doctor_client.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/mark_file.h"
#include "paceline/records/store/shared_folder.h"
#include "paceline/tools/cli/doctor_messages.h"
#include "paceline/tools/doctor/link_probe.h"

namespace paceline::cli {

namespace {

using namespace std::chrono_literals;
using Connection = rpc::Connection<wire::DoctorAnswer, wire::DoctorOrder>;

constexpr auto kPreflightLimit = 5s;

absl::StatusOr<doctor::ProbeEnd> end_of(const wire::DoctorLink& link, const std::string& address) {
  const auto fabric = links::fabric_named(link.fabric());
  if (!fabric) return absl::InternalError(fmt::format("host 0 wants a link over '{}'", link.fabric()));
  doctor::ProbeEnd end{address, *fabric};
  links::LinkKeys keys;
  const std::size_t size = *fabric == links::Fabric::kSealed ? keys.send.size() : 0;
  if (link.send_key().size() != size || link.receive_key().size() != size)
    return absl::InternalError("host 0 gave keys of another size than they have");
  if (size == 0) return end;
  std::copy_n(link.send_key().begin(), size, reinterpret_cast<char*>(keys.send.data()));
  std::copy_n(link.receive_key().begin(), size, reinterpret_cast<char*>(keys.receive.data()));
  end.keys = keys;
  return end;
}

// Would the other processes of this host be let in?
Finding preflight_as(security::Role role, const peer::PeerOptions& reach) {
  const std::string what = fmt::format("preflight, as {}", to_string(role));
  const auto access = peer::read_access(reach.certs, reach.token_file, role);
  const absl::Status answer =
      access.ok() ? rpc::preflight(reach.coordinator, *access, kPreflightLimit) : access.status();
  if (answer.ok()) return {what, Health::kOk, "host 0 accepts it"};
  return {what, Health::kFail, std::string(answer.message()), "copy the job's certificates here again"};
}

// Does what the first host asks.
class DoctorClient {
 public:
  DoctorClient(Connection& connection, std::string address, int host)
      : connection_(connection), address_(std::move(address)), host_(host) {}

  void answer(const wire::DoctorOrder& order) {
    wire::DoctorAnswer answer;
    answer.set_to(order.number());
    if (order.has_clock()) {
      answer.mutable_clock_read()->set_wall_ns(wall_ns());
    } else if (order.has_mark()) {
      look_for(order.mark(), *answer.mutable_mark());
    } else if (order.has_link() && order.link().address().empty()) {
      return listen(order.link(), std::move(answer));
    } else if (order.has_link()) {
      measure(order.link(), *answer.mutable_measured());
    }
    connection_.send(answer);
  }

 private:
  void look_for(const wire::DoctorMark& mark, wire::DoctorMark& own) {
    mark_.reset();
    if (mark.file().empty()) return;
    const absl::Status found = store::find_mark(mark.file(), mark.text(), store::kMarkPatience);
    if (!found.ok()) return own.set_error(std::string(found.message()));
    auto left = store::MarkFile::leave(mark_of_host(mark.file(), host_));
    if (!left.ok()) return own.set_error(std::string(left.status().message()));
    mark_.emplace(*std::move(left));
    own.set_text(mark_->text());
  }

  // Serves the link until the other end is done, or host 0 wants something else.
  void listen(const wire::DoctorLink& link, wire::DoctorAnswer answer) {
    auto listener = open(link);
    if (listener.ok()) {
      answer.mutable_listening()->set_address((*listener)->address());
    } else {
      answer.mutable_listening()->set_error(std::string(listener.status().message()));
    }
    const bool said = connection_.send(answer);
    if (said && listener.ok())
      (*listener)->serve([this] { return connection_.wait(0ms) || connection_.ended(); }, kProbeLimit);
  }

  absl::StatusOr<std::unique_ptr<doctor::ProbeListener>> open(const wire::DoctorLink& link) const {
    PACELINE_ASSIGN_OR_RETURN(const doctor::ProbeEnd end, end_of(link, address_));
    return doctor::ProbeListener::open(end);
  }

  absl::StatusOr<doctor::LinkFigures> figures(const wire::DoctorLink& link) const {
    PACELINE_ASSIGN_OR_RETURN(const doctor::ProbeEnd end, end_of(link, address_));
    return doctor::probe(end, link.address(), kProbeLimit);
  }

  void measure(const wire::DoctorLink& link, wire::DoctorMeasured& measured) const {
    const auto found = figures(link);
    if (!found.ok()) return measured.set_error(std::string(found.status().message()));
    measured.set_round_trip_us(found->round_trip_us);
    measured.set_there_mb_s(found->there_mb_s);
    measured.set_back_mb_s(found->back_mb_s);
  }

  Connection& connection_;
  const std::string address_;
  const int host_;
  std::optional<store::MarkFile> mark_;
};

}  // namespace

absl::StatusOr<wire::Disconnect> report_to_first_host(ExaminedHost options) {
  const peer::PeerOptions& reach = options.reach;
  PACELINE_ASSIGN_OR_RETURN(const rpc::Access access,
                            peer::read_access(reach.certs, reach.token_file, security::Role::kOperator));
  PACELINE_RETURN_IF_ERROR(peer::wait_for_coordinator(reach.coordinator, access, reach.patience_s).status());
  for (const security::Role role : {security::Role::kServer, security::Role::kWorker})
    add_to_wire(preflight_as(role, reach), options.hello);
  const auto stub = wire::Doctor::NewStub(rpc::channel_to(reach.coordinator, access));
  Connection connection([&](grpc::ClientContext* context) {
    rpc::introduce(*context, access);
    return stub->Examine(context);
  });
  wire::DoctorAnswer first;
  *first.mutable_hello() = options.hello;
  DoctorClient client(connection, options.address, options.hello.host());
  // Host 0 may end the stream while an answer is under way: its last order is read even if nothing can be sent.
  connection.send(first);
  while (const auto order = connection.next()) {
    if (order->has_disconnect()) return order->disconnect();
    client.answer(*order);
  }
  return peer::end_of_session(connection, wire::coordinator_lost());
}

}  // namespace paceline::cli
